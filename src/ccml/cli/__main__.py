"""``python -m ccml.cli``, where the command itself isn't on the path."""

from ccml.cli import app

app(prog_name="ccml")
