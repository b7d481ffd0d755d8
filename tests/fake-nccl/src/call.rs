//! One call as plain data, and as the line of text in which it leaves the library.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use nccl_sys::{Function, Layout, ncclResult_t};

/// One call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The called function.
    pub function: Function,
    /// The calling thread; threads are numbered from 0, in the order of their first calls.
    pub thread: usize,
    /// The result; `None` for functions without one.
    pub result: Option<ncclResult_t>,
    /// The arguments' names in the header, and their values.
    pub arguments: Vec<(String, Value)>,
}

/// An argument as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer, or an enum.
    Int(i128),
    /// A pointer or a handle, without its target.
    Pointer(usize),
    /// A struct. With a `size`, these are that many bytes; padding reads as zero.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Self>),
}

/// A field that is a number.
pub trait Number: Sized {
    /// Reads all of its bytes; `None` for more or fewer.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Number for $type {
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_ne_bytes)
            }
        }
    )* };
}

numbers!(u8, i32, u32, f32, u64, usize);

impl Call {
    /// An argument.
    ///
    /// # Panics
    ///
    /// The function has no argument of this name.
    pub fn argument(&self, name: &str) -> &Value {
        let found = self.arguments.iter().find(|(argument, _)| argument == name);
        match found {
            Some((_, value)) => value,
            None => panic!("{} has no {name}", self.function),
        }
    }

    /// An argument that is an integer.
    ///
    /// # Panics
    ///
    /// There is none, or it is not an integer.
    pub fn int(&self, name: &str) -> i128 {
        match self.argument(name) {
            Value::Int(int) => *int,
            other => panic!("{name} of {} is {other:?}", self.function),
        }
    }

    /// An argument that is a pointer or a handle, as an address.
    ///
    /// # Panics
    ///
    /// There is none, or it is neither.
    pub fn pointer(&self, name: &str) -> usize {
        match self.argument(name) {
            Value::Pointer(address) => *address,
            other => panic!("{name} of {} is {other:?}", self.function),
        }
    }

    /// An argument that is a struct.
    ///
    /// # Panics
    ///
    /// There is none, or it is not a struct.
    pub fn bytes(&self, name: &str) -> &[u8] {
        match self.argument(name) {
            Value::Bytes(bytes) => bytes,
            other => panic!("{name} of {} is {other:?}", self.function),
        }
    }

    /// A field of an argument that is a `T`.
    ///
    /// # Panics
    ///
    /// The argument is not a struct, its `size` does not reach the field, or the field is not an
    /// `N`.
    pub fn field<T: Layout, N: Number>(&self, argument: &str, field: &str) -> N {
        let Some(layout) = T::field(field) else { panic!("{} has no {field}", T::NAME) };
        let bytes = self.bytes(argument).get(layout.offset..layout.offset + layout.size);
        let Some(bytes) = bytes else { panic!("{argument} ends before {field}") };
        match N::from_bytes(bytes) {
            Some(number) => number,
            None => panic!("{field} of {} has {} bytes", T::NAME, layout.size),
        }
    }
}

/// Words separated by spaces: the function, the thread, the result or `-`, the arguments.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.function, self.thread)?;
        match self.result {
            Some(result) => write!(f, "{}", result.0)?,
            None => f.write_char('-')?,
        }
        for (name, value) in &self.arguments {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => write!(f, "i{int}"),
            Self::Pointer(address) => write!(f, "p{address:x}"),
            Self::Bytes(bytes) => {
                f.write_char('b')?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::List(values) => {
                f.write_char('l')?;
                values.iter().try_for_each(|value| write!(f, "{value},"))
            }
        }
    }
}

/// The text was not written by [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

impl FromStr for Call {
    type Err = Garbled;

    fn from_str(text: &str) -> Result<Self, Garbled> {
        let mut words = text.split(' ');
        let name = words.next().ok_or(Garbled)?;
        let function = Function::ALL.iter().find(|function| function.name() == name);
        let function = *function.ok_or(Garbled)?;
        let thread = words.next().and_then(|word| word.parse().ok()).ok_or(Garbled)?;
        let result = match words.next().ok_or(Garbled)? {
            "-" => None,
            code => Some(ncclResult_t(code.parse().map_err(|_| Garbled)?)),
        };
        let argument = |word: &str| {
            let (name, value) = word.split_once('=').ok_or(Garbled)?;
            Ok((name.to_owned(), value.parse()?))
        };
        let arguments = words.map(argument).collect::<Result<_, Garbled>>()?;
        Ok(Self { function, thread, result, arguments })
    }
}

impl FromStr for Value {
    type Err = Garbled;

    fn from_str(text: &str) -> Result<Self, Garbled> {
        let (kind, rest) = text.split_at_checked(1).ok_or(Garbled)?;
        let hex = |at: usize| {
            rest.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()).ok_or(Garbled)
        };
        match kind {
            "i" => rest.parse().map(Self::Int).map_err(|_| Garbled),
            "p" => usize::from_str_radix(rest, 16).map(Self::Pointer).map_err(|_| Garbled),
            "b" => (0..rest.len()).step_by(2).map(hex).collect::<Result<_, _>>().map(Self::Bytes),
            "l" => {
                let values = rest.split_terminator(',').map(str::parse);
                values.collect::<Result<_, _>>().map(Self::List)
            }
            _ => Err(Garbled),
        }
    }
}
