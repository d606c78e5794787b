"""The hostile programs of attacks.txt and reaches.txt, by name."""

from pathlib import Path

PRELUDE = """
import json, os, sys

def send(message):
    "Put a message of one's own on the wire."
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    os.write(int(sys.argv[1]), len(body).to_bytes(4, "big") + body)

def found(text):
    "Whether a text holds the tests. The needle is written backwards, or the search would find itself."
    return ")4(f ,)5(f" in str(text)[::-1]

"""

TEST = "assert f(2) == 4\nassert f(3) == 9\nassert sorted([f(5), f(4)]) == [16, 25]"
"""The hidden test of every attack."""


def read(name: str) -> dict[str, str]:
    """The programs of a file, in which each begins after a line "=== name"."""
    sections = Path(__file__).with_name(name).read_text().split("\n=== ")[1:]
    return {title: PRELUDE + source for title, _, source in (section.partition("\n") for section in sections)}
