"""List and search the files of a directory with programs that run under the session's supervisor."""
