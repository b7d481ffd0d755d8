//! Places in a program: this process's, or another rank's.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lock::Mutex;

/// Where a rank's program made a call: a file, a line and a column.
///
/// The rank may be another process. The file is named as its compiler named it.
///
/// ```
/// use typed_nccl::Error;
/// use typed_nccl::error::Site;
///
/// fn line(error: &Error) -> Option<Site> {
///     match error {
///         Error::BadLength(bad) => Some(bad.site),
///         Error::BadRange(bad) => Some(bad.site),
///         _ => None,
///     }
/// }
/// # use typed_nccl::{Host, Result};
/// # fn main() -> Result<()> {
/// let error = Host::local()?.zeros::<f32>(8)?.slice(4..9).to_vec().expect_err("it has 8");
/// let site = line(&error).expect("it has one").to_string();
/// assert!(site.contains(".rs:"), "{site}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Site(NonNull<()>);

// One pointer, so that recording a call costs no more than a `Location`. The lowest bit tells which
// of the two types it points to; both are aligned to more than one byte.
const ELSEWHERE: usize = 1;
const _: () =
    assert!(align_of::<Location<'_>>() > ELSEWHERE && align_of::<Elsewhere>() > ELSEWHERE);

// SAFETY: it is a reference to one of two `Sync` types, and the value lives forever.
unsafe impl Send for Site {}
// SAFETY: as above.
unsafe impl Sync for Site {}

/// A place in another process's program, or in this one's with the method that it calls.
#[derive(PartialEq, Eq, Hash)]
struct Elsewhere {
    file: Box<str>,
    line: u32,
    column: u32,
    /// A method that makes several operations, or none.
    method: Box<str>,
}

/// How many of them are kept. They are leaked, and a program has few lines that call this library.
const MOST: usize = 1 << 16;

/// How many bytes of a name are kept.
const LONGEST: usize = 1 << 10;

impl Site {
    /// The caller of the enclosing `#[track_caller]` function.
    #[inline]
    #[track_caller]
    pub(crate) const fn caller() -> Self {
        Self(NonNull::from_ref(Location::caller()).cast())
    }

    /// A place in the program of another process.
    pub(crate) fn elsewhere(file: &str, line: u32, column: u32) -> Self {
        Self::kept(file, line, column, "")
    }

    /// The same place, with the method that is called there: its operations have other names.
    pub(crate) fn of(self, method: &'static str) -> Self {
        type Known = HashMap<(usize, &'static str), Site>;
        static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
        let key = (self.0.addr().get(), method);
        let mut known = KNOWN.lock();
        let keep = || Self::kept(self.file(), self.line(), self.column(), method);
        *known.entry(key).or_insert_with(keep)
    }

    /// The method that was called there, if the operations that it makes have other names.
    pub(crate) fn method(self) -> Option<&'static str> {
        self.place().map(|place| &*place.method).filter(|method| !method.is_empty())
    }

    fn kept(file: &str, line: u32, column: u32, method: &str) -> Self {
        static KNOWN: LazyLock<Mutex<HashSet<&'static Elsewhere>>> = LazyLock::new(Mutex::default);
        static TOO_MANY: LazyLock<Elsewhere> =
            LazyLock::new(|| Elsewhere::new("elsewhere", 0, 0, ""));
        let new = Elsewhere::new(file, line, column, method);
        let mut known = KNOWN.lock();
        let place: &'static Elsewhere = match known.get(&new) {
            Some(place) => place,
            None if known.len() >= MOST => &TOO_MANY,
            None => {
                let place = &*Box::leak(Box::new(new));
                known.insert(place);
                place
            }
        };
        Self(NonNull::from(place).cast().map_addr(|address| address | ELSEWHERE))
    }

    /// A place outside of the program, for events that no call caused.
    pub(crate) fn nowhere() -> Self {
        Self::elsewhere("", 0, 0)
    }

    /// Whether it is a line of a program.
    pub(crate) fn is_known(self) -> bool {
        !self.file().is_empty()
    }

    /// The place as one word, which can be stored atomically.
    #[inline]
    #[cfg(feature = "cuda")]
    pub(crate) fn as_ptr(self) -> *mut () {
        self.0.as_ptr()
    }

    /// The place of a word; `None` for null.
    ///
    /// # Safety
    /// The word must be null or come from [`as_ptr`](Self::as_ptr).
    #[cfg(feature = "cuda")]
    pub(crate) unsafe fn from_ptr(word: *mut ()) -> Option<Self> {
        NonNull::new(word).map(Self)
    }

    fn parts(self) -> (&'static str, u32, u32) {
        if let Some(place) = self.place() {
            return (&place.file, place.line, place.column);
        }
        // SAFETY: the bit is clear, so `caller` made it from a `&'static Location`.
        let site: &'static Location<'static> = unsafe { self.0.cast().as_ref() };
        (site.file(), site.line(), site.column())
    }

    /// The place that was kept, if it is one.
    fn place(self) -> Option<&'static Elsewhere> {
        if self.0.addr().get() & ELSEWHERE == 0 {
            return None;
        }
        let place = self.0.as_ptr().map_addr(|address| address & !ELSEWHERE);
        // SAFETY: the bit is set, so `kept` made it from a leaked `&'static Elsewhere`, and `place`
        // is that pointer without the bit.
        Some(unsafe { &*place.cast::<Elsewhere>() })
    }

    /// The source file, as it was passed to the compiler.
    pub fn file(self) -> &'static str {
        self.parts().0
    }

    /// The line, from 1.
    pub fn line(self) -> u32 {
        self.parts().1
    }

    /// The column, from 1.
    pub fn column(self) -> u32 {
        self.parts().2
    }
}

impl Elsewhere {
    fn new(file: &str, line: u32, column: u32, method: &str) -> Self {
        let cut = |name: &str| name[..name.floor_char_boundary(name.len().min(LONGEST))].into();
        Self { file: cut(file), line, column, method: cut(method) }
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.parts() == other.parts()
    }
}

impl Eq for Site {}

impl Hash for Site {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// `trainer.rs:41`
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            ("", ..) => f.write_str("no line of the program"),
            (file, line, _) => write!(f, "{file}:{line}"),
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = self.parts();
        write!(f, "{file}:{line}:{column}")
    }
}

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.parts(), self.method().unwrap_or_default()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Site {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        type Parts = ((String, u32, u32), String);
        let ((file, line, column), method) = Parts::deserialize(deserializer)?;
        Ok(Self::kept(&file, line, column, &method))
    }
}

#[cfg(test)]
mod tests {
    use super::Site;

    #[test]
    fn a_place_reads_alike_on_both_sides() {
        let (here, line) = (Site::caller(), line!());
        let bytes = postcard::to_stdvec(&here).expect("a place is encoded");
        let [there, again] = [0; 2].map(|_| postcard::from_bytes(&bytes).expect("and decoded"));
        assert!(here == there && there == again);
        assert_eq!(here.to_string(), there.to_string());
        assert_eq!((here.file(), here.line(), here.column()), (file!(), line, there.column()));
        assert!(here != Site::caller());
        assert!(there != Site::elsewhere(there.file(), there.line() + 1, there.column()));
    }

    #[test]
    fn a_method_goes_along_and_the_place_stays_the_same() {
        let here = Site::caller();
        let named = here.of("all_to_all_v");
        let again = postcard::to_stdvec(&named.of("all_to_all_v")).expect("a place is encoded");
        let there: Site = postcard::from_bytes(&again).expect("and decoded");
        assert!(here.method().is_none() && here == named && here == there);
        assert_eq!([named.method(), there.method()], [Some("all_to_all_v"); 2]);
        assert_eq!(here.to_string(), there.to_string());
        assert_eq!(here.of("gather_v").of("scatter_v").method(), Some("scatter_v"));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let site = Site::elsewhere(&"ü".repeat(5000), 1, 1);
        assert!(site.file().len() <= super::LONGEST && site.file().chars().all(|c| c == 'ü'));
    }
}
