//! The error of a rank's body, and the errors of the others.

use std::fmt;

use typed_nccl::Error;

/// An error of the program's own.
#[derive(Debug)]
pub(crate) enum Mine {
    Disk,
    Tired,
    Theirs(Error),
}

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk => f.write_str("disk full"),
            Self::Tired => f.write_str("tired"),
            Self::Theirs(error) => write!(f, "{error}"),
        }
    }
}

impl From<Error> for Mine {
    fn from(error: Error) -> Self {
        Self::Theirs(error)
    }
}

#[track_caller]
pub(crate) fn says(error: &Error, lost: &[usize], text: &str) {
    let Error::PeerFailed(failed) = error else { panic!("{error}") };
    assert!(failed.lost.iter().map(|rank| rank.index()).eq(lost.iter().copied()), "{error}");
    assert!(error.to_string().ends_with(text), "`{text}` is not the end of: {error}");
}
