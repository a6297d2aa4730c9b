"""`python -m bncl_pyg`: the commands, where no `bncl` is on the path."""

from importlib import import_module

if __name__ == "__main__":
    import_module("bncl_cli.main").main()
