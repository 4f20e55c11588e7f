"""`python -m openclust` is the `openclust` command."""

from openclust.cli.main import main

if __name__ == "__main__":
    main()
