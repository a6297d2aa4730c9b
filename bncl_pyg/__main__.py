"""`python -m bncl_pyg`: the commands, where no `bncl` is on the path."""

from bncl_cli.main import main

if __name__ == "__main__":
    main()
