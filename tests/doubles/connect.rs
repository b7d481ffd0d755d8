//! Making communicators, and their ends.
