//! Truth values in memory that other libraries and GPUs write too.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A truth value of one byte: zero is false, anything else true.
///
/// Rust's `bool` is undefined for other bytes than 0 and 1, which memory can hold that a GPU or
/// another library has written. NumPy, torch and DLPack call this type `bool`.
///
/// ```
/// # use typed_nccl::{And, Bool, Host, Result, Seat};
/// # fn main() -> Result<()> {
/// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut done = comm.device().from_slice(Bool::of(&[true, false]))?;
/// comm.all_reduce_in_place(&mut done, And)?;
/// assert_eq!(done.to_vec()?, [true, false]);
/// comm.finish()
/// # }
/// ```
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// These truth values as elements, in place.
    pub fn of(values: &[bool]) -> &[Self] {
        // A byte has no alignment to fail, and one element each.
        <[Self]>::ref_from_bytes(values.as_bytes()).unwrap_or_default()
    }

    /// The truth value.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.get()
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl PartialEq<bool> for Bool {
    fn eq(&self, other: &bool) -> bool {
        self.get() == *other
    }
}

impl fmt::Debug for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
