//! The rules that need no clock: what matches, what may share a group, what adds up.

pub(crate) mod collectives;
pub(crate) mod coverage;
pub(crate) mod groups;
pub(crate) mod messages;
pub(crate) mod places;
pub(crate) mod signals;
