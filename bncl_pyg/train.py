"""`torchrun … -m bncl_pyg.train`: the command that trains, as one of the processes that torchrun starts."""

from importlib import import_module

if __name__ == "__main__":
    import_module("bncl_cli.main").train_as_rank()
