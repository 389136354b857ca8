"""The subcommands of ``leased_jobs``, a module each."""
