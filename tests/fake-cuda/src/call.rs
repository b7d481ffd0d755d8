//! One call as plain data, and as the line of text in which it leaves the library.

use std::fmt;
use std::str::FromStr;

use crate::code::Code;
use crate::exports::FUNCTIONS;

/// One call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The called function, by its symbol: `cuMemAlloc_v2`.
    pub function: &'static str,
    /// The calling thread; threads are numbered from 0, in the order of their first calls.
    pub thread: usize,
    /// The result; `None` while it waits.
    pub result: Option<Code>,
    /// The arguments' names in the header and their values: numbers, handles, addresses.
    pub arguments: Vec<(String, u64)>,
    /// The value it wrote for the caller: a handle, an address, a number.
    pub gives: Option<u64>,
}

impl Call {
    /// An argument.
    ///
    /// # Panics
    ///
    /// The function has no argument of this name.
    pub fn argument(&self, name: &str) -> u64 {
        let found = self.arguments.iter().find(|(argument, _)| argument == name);
        match found {
            Some((_, value)) => *value,
            None => panic!("{} has no {name}", self.function),
        }
    }
}

/// Words separated by spaces: the function, the thread, the result or `-`, the written value or
/// `-`, the arguments.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.function, self.thread)?;
        match self.result {
            Some(result) => write!(f, "{} ", result.number())?,
            None => f.write_str("- ")?,
        }
        match self.gives {
            Some(value) => write!(f, "{value:x}")?,
            None => f.write_str("-")?,
        }
        self.arguments.iter().try_for_each(|(name, value)| write!(f, " {name}={value:x}"))
    }
}

/// The text was not written by [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

impl FromStr for Call {
    type Err = Garbled;

    fn from_str(text: &str) -> Result<Self, Garbled> {
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| Garbled);
        let mut words = text.split(' ');
        let name = words.next().ok_or(Garbled)?;
        let function = *FUNCTIONS.iter().find(|function| **function == name).ok_or(Garbled)?;
        let thread = words.next().and_then(|word| word.parse().ok()).ok_or(Garbled)?;
        let result = match words.next().ok_or(Garbled)? {
            "-" => None,
            code => Some(code.parse().ok().and_then(Code::of).ok_or(Garbled)?),
        };
        let gives = match words.next().ok_or(Garbled)? {
            "-" => None,
            value => Some(hex(value)?),
        };
        let argument = |word: &str| {
            let (name, value) = word.split_once('=').ok_or(Garbled)?;
            Ok((name.to_owned(), hex(value)?))
        };
        let arguments = words.map(argument).collect::<Result<_, Garbled>>()?;
        Ok(Self { function, thread, result, arguments, gives })
    }
}
