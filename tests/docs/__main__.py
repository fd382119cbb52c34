"""`python -m tests.docs`: generates the tables in the documentation from the code."""

from __future__ import annotations

from tests.docs.generated import DOCUMENTS, ROOT, filled_in


def main() -> None:
    """Write every document whose tables differ from the code."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        if (made := filled_in(text)) != text:
            document.write_text(made, encoding="utf-8")
            print(f"{document.relative_to(ROOT)} is updated")


if __name__ == "__main__":
    main()
