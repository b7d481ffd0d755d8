//! Plain data of a program's own as elements.

use std::any::type_name;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip::SipHasher13;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{DType, Element};
use crate::lock::Mutex;

/// Plain data of a program's own, as an [`Element`] that every operation but a reduction takes.
///
/// The bounds are the proof that bytes which another rank, a GPU or another library wrote are a
/// value, so implementing it is safe. [`zerocopy`](crate::zerocopy) derives them for structs with
/// `#[repr(C)]` and without padding, of numbers, arrays and other such structs.
///
/// ```
/// use typed_nccl::zerocopy::{FromBytes, Immutable, IntoBytes};
/// use typed_nccl::{Host, Plain, Result, Seat};
///
/// #[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Particle {
///     at: [f32; 2],
///     id: u32,
/// }
///
/// impl Plain for Particle {}
///
/// # fn main() -> Result<()> {
/// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let own = comm.device().from_slice(&[Particle { at: [0.5, 1.0], id: 7 }])?;
/// let mut all = comm.device().zeros::<Particle>(1)?;
/// comm.all_gather(&own, &mut all)?;
/// assert_eq!(all.to_vec()?, own.to_vec()?);
/// comm.finish()
/// # }
/// ```
///
/// Without a dependency on `zerocopy`, derive with `#[zerocopy(crate = "typed_nccl::zerocopy")]`.
///
/// Ranks compare the type's name and size like any data type: for ranks that run different
/// programs, take the struct from one crate. The byte order is the machine's. On GPUs NCCL moves
/// it as `ncclUint8`, and calls are compared by type for the first 200 plain types of a process. An
/// element is aligned to 16 bytes at most and is not empty; other types do not compile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data of this program",
    label = "`Plain` is not implemented",
    note = "derive `FromBytes`, `IntoBytes` and `Immutable` of `zerocopy`, then `impl typed_nccl::Plain for ... {{}}`"
)]
pub trait Plain: Copy + Send + Sync + 'static + FromBytes + IntoBytes + Immutable {}

// SAFETY: the type is the data type's own, and by `FromBytes` every bit pattern is a value.
#[diagnostic::do_not_recommend]
unsafe impl<T: Plain> Element for T {
    const DTYPE: DType = DType::Plain(
        const {
            assert!(size_of::<T>() > 0, "an element has one byte at least");
            assert!(align_of::<T>() <= 16, "elements are aligned to 16 bytes at most");
            assert!(size_of::<T>() <= 1 << 30, "an element has 2^30 bytes at most");
            &PlainType {
                size: size_of::<T>() as u32,
                align: align_of::<T>() as u8,
                name: Name::Of(type_name::<T>),
            }
        },
    );
}

/// A [`Plain`] type as a value: equal to those of the same name, size and alignment.
///
/// ```
/// # use typed_nccl::{DType, Element, Host, PlainType, zerocopy};
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[zerocopy(crate = "typed_nccl::zerocopy")]
/// #[repr(C)]
/// struct Token {
///     id: u32,
///     weight: f32,
/// }
/// impl typed_nccl::Plain for Token {}
///
/// let DType::Plain(plain) = Token::DTYPE else { panic!("a type of the program") };
/// let plain: &PlainType = plain;
/// assert!(plain.name().ends_with("Token"));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct PlainType {
    size: u32,
    align: u8,
    name: Name,
}

enum Name {
    Of(fn() -> &'static str),
    /// Of a type of another process.
    Told(String),
}

impl PlainType {
    /// The type's path in the program that has it.
    pub fn name(&self) -> &str {
        match &self.name {
            Name::Of(name) => name(),
            Name::Told(name) => name,
        }
    }

    pub(super) const fn size(&self) -> usize {
        self.size as usize
    }

    pub(super) const fn align(&self) -> usize {
        self.align as usize
    }

    /// A number that is the same in all processes, and above every byte.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        self.hash(&mut hasher);
        hasher.finish() | 1 << 8
    }

    fn parts(&self) -> (u32, u8, &str) {
        (self.size, self.align, self.name())
    }
}

impl PartialEq for PlainType {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.parts() == other.parts()
    }
}

impl Eq for PlainType {}

impl Hash for PlainType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl fmt::Debug for PlainType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `trainer::Particle (12 bytes)`
impl fmt::Display for PlainType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.size)
    }
}

/// The types that calls named: found again by their number in one byte, and those of other
/// processes.
static KNOWN: Mutex<Vec<&'static PlainType>> = Mutex::new(Vec::new());

/// How many types a process keeps apart in records of calls.
const MOST: usize = 200;

/// Stands for the types past [`MOST`].
static OTHERS: PlainType =
    PlainType { size: 1, align: 1, name: Name::Of(|| "one of too many types to tell apart") };

impl PlainType {
    /// A type of another process. Memory for each is taken once and kept.
    fn told(size: u32, align: u8, name: String) -> &'static Self {
        let told = Self { size, align, name: Name::Told(name) };
        let mut known = KNOWN.lock();
        match known.iter().find(|known| ***known == told) {
            Some(known) => known,
            None if known.len() >= MOST => &OTHERS,
            None => {
                let told = &*Box::leak(Box::new(told));
                known.push(told);
                told
            }
        }
    }
}

#[cfg(feature = "cuda")]
impl PlainType {
    /// The type's number in this process, from 0 to [`MOST`].
    pub(super) fn number(&'static self) -> u8 {
        let mut known = KNOWN.lock();
        let number = known.iter().position(|known| *known == self).unwrap_or_else(|| {
            if known.len() < MOST {
                known.push(self);
                known.len() - 1
            } else {
                MOST
            }
        });
        number as u8
    }

    /// Whether it stands for the types past [`MOST`].
    pub(super) fn is_one_of_many(&self) -> bool {
        std::ptr::eq(self, &raw const OTHERS)
    }

    /// The type of that number.
    pub(super) fn numbered(number: u8) -> Option<&'static Self> {
        let known = KNOWN.lock();
        match usize::from(number) {
            MOST => Some(&OTHERS),
            number => known.get(number).copied(),
        }
    }
}

impl Serialize for PlainType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parts().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for &'static PlainType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (size, align, name) = Deserialize::deserialize(deserializer)?;
        if size == 0 || align == 0 {
            return Err(D::Error::custom("an element without a size or an alignment"));
        }
        Ok(PlainType::told(size, align, name))
    }
}
