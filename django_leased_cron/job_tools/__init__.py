"""What people do with jobs from a command line or a page: list, foresee, run, pause, move and check them."""
