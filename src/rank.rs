//! Ranks: places in a communicator, checked where they enter.
//!
//! A communicator that continues without some ranks renumbers the others. A rank therefore
//! carries the [`Generation`] of the communicator that gave it, and a stale one is refused. Below
//! the typed layer ranks are plain numbers, of the first generation whatever the communicator's.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Rem, Sub};

use serde::{Deserialize, Serialize};

/// One place in a communicator, from 0 to its size.
///
/// A `Rank` from a communicator (`comm.rank()`, `comm.ring(1)`, `comm.peer(3)`) is in range there
/// until the communicator continues without some of its ranks
/// ([`recover`](crate::Communicator::recover), [`shrink`](crate::Communicator::shrink)). The
/// survivors are renumbered, so an old rank is refused as
/// [`Error::StaleRank`](crate::Error::StaleRank) and equals no new one.
/// [`Recovery::now`](crate::Recovery::now) gives its number afterwards.
///
/// `rank + 1`, `rank - 1` and `rank % n` are ranks of the same communicator, so
/// `(rank + 1) % comm.size()` is the next one, as [`comm.ring(1)`](crate::Communicator::ring) is.
/// There is no rank below 0: `rank - 1` of rank 0 is refused where it is used, and so is all that
/// is computed from it; [`comm.ring(-1)`](crate::Communicator::ring) wraps around. Products and
/// quotients are numbers, of [`index`](Self::index).
///
/// Methods take `impl AsRank`, so a plain number works too; it is checked on entry. Nothing records
/// which ranks a plain number was counted in: a `usize` that a program keeps is its own to keep up
/// to date.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat};
/// # fn main() -> Result<()> {
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let right = comm.ring(1);
/// assert_eq!(right, (comm.rank() + 1) % comm.size());
/// assert!(comm.peer(comm.size()).is_err());
/// assert!(comm.rank() == 0 && comm.rank() != 1);
/// # comm.finish()
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub(crate) u32);

/// How many times a communicator has renumbered its ranks. Ranks carry it in the bits above
/// [`BITS`]; it wraps around.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Generation(u32);

/// The number of bits that hold a rank's number.
const BITS: u32 = 24;

/// The maximum number of ranks of a communicator.
pub(crate) const MOST: usize = NUMBER as usize;

/// The most ranks of one process.
pub(crate) const MOST_IN_PROCESS: usize = 4096;

const NUMBER: u32 = (1 << BITS) - 1;

/// The generation of a plain number, valid in every communicator.
const PLAIN: u32 = !NUMBER;

impl Generation {
    /// The next generation.
    pub(crate) fn next(self) -> Self {
        match self.0.wrapping_add(1 << BITS) {
            PLAIN => Self(0),
            next => Self(next),
        }
    }

    /// Encodes it for ranks that join later.
    pub(crate) fn to_byte(self) -> u8 {
        (self.0 >> BITS) as u8
    }

    /// The inverse of [`to_byte`](Self::to_byte); `None` for a byte it never returns.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(Self(u32::from(byte) << BITS)).filter(|generation| generation.0 != PLAIN)
    }

    /// This generation's rank with the number of `rank`.
    #[inline]
    pub(crate) fn of(self, rank: Rank) -> Rank {
        Rank(rank.0 & NUMBER | self.0)
    }

    pub(crate) fn is_first(self) -> bool {
        self.0 == 0
    }
}

impl Rank {
    /// The rank as a number.
    #[inline]
    pub fn index(self) -> usize {
        (self.0 & NUMBER) as usize
    }

    /// Rank `index` of a communicator that has kept all its ranks; its user checks the range.
    /// [`Communicator::peer`](crate::Communicator::peer) gives a rank of any communicator.
    #[inline]
    pub fn from_index(index: usize) -> Self {
        Self::at(index)
    }

    /// The rank `offset` places further on a ring of `size`.
    pub(crate) fn ring(self, offset: isize, size: usize) -> Self {
        let size = size.max(1);
        let forward = offset.rem_euclid(isize::try_from(size).unwrap_or(isize::MAX));
        self.beside((self.index() + forward.unsigned_abs()) % size)
    }

    #[inline]
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(NUMBER).min(NUMBER))
    }

    /// The result of arithmetic. Out of range is for good: a remainder of it would be some rank.
    fn computed(self, index: Option<usize>) -> Self {
        let index = index.filter(|_| self.index() < MOST);
        self.beside(index.unwrap_or(MOST))
    }

    /// Rank `index` of the same communicator.
    pub(crate) fn beside(self, index: usize) -> Self {
        Self(Self::at(index).0 | self.0 & PLAIN)
    }

    /// The rank as the program passed it, for use before the communicator is known.
    pub(crate) fn kept(rank: impl AsRank) -> Self {
        rank.kept(sealed::Inside)
    }

    /// Whether it is a rank of this generation or a plain number.
    pub(crate) fn is_of(self, generation: Generation) -> bool {
        let own = self.0 & PLAIN;
        own == generation.0 || own == PLAIN
    }

    /// Whether the two can be the same rank: a plain number matches in any generation.
    pub(crate) fn may_be(self, other: Self) -> bool {
        let either_is_plain = self.is_plain() || other.is_plain();
        self == other || either_is_plain && self.index() == other.index()
    }

    /// Whether it is a plain number.
    pub(crate) fn is_plain(self) -> bool {
        self.0 & PLAIN == PLAIN
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index().fmt(f)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({})", self.index())
    }
}

/// Anything that names a rank: a [`Rank`], or a number. Sealed.
///
/// ```
/// # use typed_nccl::{AsRank, Buffer, Communicator, Host, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// /// `to` is a `Rank`, or a number.
/// fn send(comm: &Communicator<Host>, x: &Buffer<f32, Host>, to: impl AsRank) -> Result<()> {
///     comm.send(x, to)
/// }
/// assert!(send(&comm, &comm.device().zeros(4)?, 7).is_err());
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a rank",
    label = "expected a `Rank` or a `usize`",
    note = "`comm.rank()` is this rank; a plain number such as `0` is a `usize`"
)]
pub trait AsRank: Copy + sealed::Sealed {
    /// The rank as a number, not checked yet.
    fn index(self) -> usize;

    /// The rank's number in a communicator of this generation; out of range for a rank of another
    /// one.
    #[doc(hidden)]
    fn number_in(self, base: u32, _: sealed::Inside) -> usize;

    /// The rank itself, or a plain number.
    #[doc(hidden)]
    fn kept(self, _: sealed::Inside) -> Rank;
}

/// By number, as in `comm.rank() == 0`: whichever rank has it.
impl PartialEq<usize> for Rank {
    fn eq(&self, number: &usize) -> bool {
        self.index() == *number
    }
}

/// By number, as in `comm.rank() + 1 < comm.size()`.
impl PartialOrd<usize> for Rank {
    fn partial_cmp(&self, number: &usize) -> Option<Ordering> {
        self.index().partial_cmp(number)
    }
}

/// The rank that many places after it, in range or not.
impl Add<usize> for Rank {
    type Output = Self;

    fn add(self, places: usize) -> Self {
        self.computed(self.index().checked_add(places))
    }
}

/// The rank that many places before it, in range or not.
impl Sub<usize> for Rank {
    type Output = Self;

    fn sub(self, places: usize) -> Self {
        self.computed(self.index().checked_sub(places))
    }
}

/// `(rank + 1) % comm.size()` wraps around. By 0 no rank.
impl Rem<usize> for Rank {
    type Output = Self;

    fn rem(self, size: usize) -> Self {
        self.computed(self.index().checked_rem(size))
    }
}

impl AsRank for Rank {
    #[inline]
    fn index(self) -> usize {
        self.index()
    }

    #[inline]
    fn number_in(self, base: u32, _: sealed::Inside) -> usize {
        self.0.wrapping_sub(base) as usize
    }

    #[inline]
    fn kept(self, _: sealed::Inside) -> Rank {
        self
    }
}

impl AsRank for usize {
    #[inline]
    fn index(self) -> usize {
        self
    }

    #[inline]
    fn number_in(self, _: u32, _: sealed::Inside) -> usize {
        self
    }

    #[inline]
    fn kept(self, _: sealed::Inside) -> Rank {
        Rank(Rank::at(self).0 | PLAIN)
    }
}

impl Generation {
    /// The number of a rank in a communicator of `size` ranks; `None` if it is out of range or
    /// stale.
    #[inline]
    pub(crate) fn number(self, rank: impl AsRank, size: usize) -> Option<usize> {
        // One subtraction removes the generation and leaves a rank of another generation out of
        // range.
        let number = rank.number_in(self.0, sealed::Inside);
        if number < size { Some(number) } else { Self::plain(rank, size) }
    }

    /// [`number`](Self::number) for a plain number that was kept as a rank.
    #[cold]
    fn plain(rank: impl AsRank, size: usize) -> Option<usize> {
        let is_plain = rank.kept(sealed::Inside).is_plain();
        Some(rank.index()).filter(|&number| is_plain && number < size)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Rank {}
    impl Sealed for usize {}

    /// Constructible only in this module, so that no other code can call the methods that take it.
    #[derive(Clone, Copy, Debug)]
    pub struct Inside;
}

/// Implements a sealed trait of the calling module, whose method is `number`, for integers of up to
/// 64 bits.
macro_rules! integers {
    ($Trait:ident) => {
        crate::rank::integers!($Trait: u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);
    };
    ($Trait:ident: $($integer:ty),+) => { $(
        #[diagnostic::do_not_recommend]
        impl $Trait for $integer {
            #[inline]
            fn number(self) -> i128 {
                self as i128
            }
        }

        impl sealed::Sealed for $integer {}
    )+ };
}
pub(crate) use integers;

#[cfg(test)]
mod tests {
    use super::{Generation, MOST, Rank};

    #[test]
    fn a_rank_is_known_in_its_generation_only() {
        let first = Generation::default();
        let second = first.next();
        for (rank, own, other) in
            [(Rank::at(2), first, second), (second.of(Rank::at(2)), second, first)]
        {
            assert_eq!((own.number(rank, 3), own.number(rank, 2)), (Some(2), None));
            assert_eq!((other.number(rank, 3), other.number(rank, MOST)), (None, None));
            assert!(rank.is_of(own) && !rank.is_of(other));
            assert_eq!((rank.index(), rank.to_string()), (2, "2".to_owned()));
            assert_eq!(format!("{rank:?}"), "Rank(2)");
        }
        assert_ne!(Rank::at(2), second.of(Rank::at(2)));
    }

    #[test]
    fn a_plain_number_is_of_every_generation() {
        let (first, kept) = (Generation::default(), Rank::kept(2_usize));
        let mut generation = first;
        // One step per generation, enough to reach the value reserved for plain numbers.
        for _ in 0..256 {
            assert_eq!((generation.number(kept, 3), generation.number(kept, 2)), (Some(2), None));
            assert_eq!((generation.number(2, 3), generation.number(3, 3)), (Some(2), None));
            assert!(!generation.of(Rank::at(2)).is_plain());
            assert_eq!(Generation::from_byte(generation.to_byte()), Some(generation));
            generation = generation.next();
        }
        assert_eq!(generation, first.next());
        assert_eq!(Generation::from_byte(kept.0.to_be_bytes()[0]), None);
    }

    #[test]
    fn arithmetic_stays_in_its_generation_and_out_of_range() {
        let second = Generation::default().next();
        let at = |index| second.of(Rank::at(index));
        assert_eq!((at(3) + 1) % 4, at(0));
        assert_eq!((at(0) + 4 - 1) % 4, at(3));
        assert_eq!(at(3) - 3, at(0));
        assert!(at(3) + 1 < 5 && at(3) + 1 > 3 && at(3) - 1 == 2 && at(3) <= 3);
        let none = [at(0) - 1, at(1) - usize::MAX, at(1) + usize::MAX, at(1) % 0, at(1) + MOST];
        for none in none {
            assert_eq!(second.number(none, MOST), None);
            for still in [none % 3, none + 1, none - MOST, (none - 1) % 3] {
                assert_eq!((second.number(still, MOST), still), (None, none));
            }
        }
        // A plain number stays one.
        let plain = Rank::kept(2_usize) + 1;
        assert!(plain.is_plain());
        assert_eq!(second.number(plain, 4), Some(3));
        assert_eq!(second.number(plain, 3), None);
    }

    #[test]
    fn places_on_a_ring_are_of_one_generation() {
        let second = Generation::default().next();
        let rank = second.of(Rank::at(0));
        assert_eq!(rank.ring(-1, 4), second.of(Rank::at(3)));
        assert_eq!(rank.ring(5, 4), second.of(Rank::at(1)));
    }
}
