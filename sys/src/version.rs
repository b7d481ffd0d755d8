//! Versions of NCCL, and both ways in which they have been written as one integer.

use std::ffi::c_int;
use std::fmt;

/// The release whose headers are declared here.
pub const BOUND: Version = Version::new(2, 32, 3);

/// A version of NCCL, ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number, 2 since 2015.
    pub major: u32,
    /// The second number: the release.
    pub minor: u32,
    /// The third number: the fix.
    pub patch: u32,
}

impl Version {
    /// The version of these numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads what `ncclGetVersion` wrote. Up to 2.8 a minor version took one digit (2.8.4 is 2804),
    /// since 2.9 it takes two (2.9.6 is 20906).
    pub const fn from_code(code: c_int) -> Option<Self> {
        if code < 1000 {
            return None;
        }
        let code = code.unsigned_abs();
        if code < 10_000 {
            return Some(Self::new(code / 1000, code / 100 % 10, code % 100));
        }
        Some(Self::new(code / 10_000, code / 100 % 100, code % 100))
    }

    /// As `NCCL_VERSION_CODE` writes it.
    pub const fn code(self) -> u32 {
        if self.major <= 2 && self.minor <= 8 {
            return self.major * 1000 + self.minor * 100 + self.patch;
        }
        self.major * 10_000 + self.minor * 100 + self.patch
    }

    /// Whether this is `other` or newer.
    pub const fn at_least(self, other: Self) -> bool {
        self.code_for_order() >= other.code_for_order()
    }

    /// The older of two.
    pub const fn min(self, other: Self) -> Self {
        if self.at_least(other) { other } else { self }
    }

    /// Two or three numbers with dots, for the macros; anything else does not compile.
    pub(crate) const fn parse(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut parts = [0; 3];
        let (mut part, mut at) = (0, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'.' => part += 1,
                digit => {
                    assert!(digit.is_ascii_digit(), "a version is numbers and dots");
                    parts[part] = parts[part] * 10 + (digit - b'0') as u32;
                }
            }
            at += 1;
        }
        Self::new(parts[0], parts[1], parts[2])
    }

    const fn code_for_order(self) -> u64 {
        (self.major as u64) << 42 | (self.minor as u64) << 21 | self.patch as u64
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings() {
        assert_eq!(Version::from_code(2804), Some(Version::new(2, 8, 4)));
        assert_eq!(Version::from_code(20906), Some(Version::new(2, 9, 6)));
        assert_eq!(Version::from_code(23203), Some(BOUND));
        assert_eq!(Version::from_code(0), None);
        assert_eq!(Version::from_code(-23203), None);
        for version in [Version::new(2, 8, 4), Version::new(2, 9, 6), BOUND] {
            assert_eq!(Version::from_code(version.code() as c_int), Some(version));
        }
    }

    #[test]
    fn order_is_age() {
        assert!(Version::new(2, 9, 0) > Version::new(2, 8, 99));
        assert!(BOUND.at_least(Version::parse("2.32")));
        assert!(!Version::parse("2.32").at_least(BOUND));
        assert_eq!(BOUND.min(Version::parse("2.27.7")), Version::new(2, 27, 7));
        assert_eq!(BOUND.min(Version::new(3, 0, 0)), BOUND);
    }
}
