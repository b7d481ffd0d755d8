//! What is known about a struct beside its layout: which release added which field.
//!
//! A tag does not name a layout: `ncclConfig_v22800` has been three structs. So the fields are
//! counted, and `size` says where the last known one ends.

use crate::version::Version;

/// One field of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The header's name.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes that it takes.
    pub size: usize,
    /// The first release that has it; 2.18 stands for 2.18 and anything before.
    pub since: Version,
}

/// A struct of NCCL's, with the history of its fields.
pub trait Layout: Sized {
    /// The header's name.
    const NAME: &'static str;
    /// All fields, in order.
    const FIELDS: &'static [Field];

    /// The field of this name.
    fn field(name: &str) -> Option<&'static Field> {
        Self::FIELDS.iter().find(|field| field.name == name)
    }

    /// The end of the last field that `version` knows: what its struct is, without the padding at
    /// its end. 0 where `version` has no such struct.
    fn end_in(version: Version) -> usize {
        let known = Self::FIELDS.iter().filter(|field| version.at_least(field.since));
        known.map(|field| field.offset + field.size).max().unwrap_or(0)
    }
}
