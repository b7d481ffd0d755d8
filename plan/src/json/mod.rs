//! Plans as files that people write and read.
//!
//! A file is one JSON object. Everything goes by its name, and numbers, conditions, regions and peers are
//! text as [`Plan::show`] shows it:
//!
//! ```json
#![doc = include_str!("halo.json")]
//! ```
//!
//! # The format, version 1
//!
//! | where | what |
//! |---|---|
//! | a number | `4`, or text: `"(r + 1) % n"`. `r` is the rank, `size` the number of all ranks, the name of an axis its extent, `r.local` this rank's place along the axis `local`; parameters and counters by their names, `sizes[i]` for a list. Division rounds down, `%` is never negative. |
//! | a condition | `"r < 2 && !(m == k \|\| n > 4)"`, also `true`, `false`, `all(..)`, `any(..)` |
//! | a region | `"u"`, `"u[h .. 2 * h]"`, `"g[i]"`, `"g[i][0 .. h]"`, `"u.next"` for the other of two copies |
//! | a peer | `"r + 1"` along an open axis, `"(r + 1) % n"` along a ring; on a mesh `"(r.nodes + 1) % nodes, r.local - 1"`; `{"rank": "0"}` by its number |
//! | values | `4`, `[2, 4, 8]`, `"1 ..= 8"`, `">= 3"` |
//! | an element type | `"f32"`, or `{"generic": "T"}` for a type parameter |
//! | an array | `"array": {"count": "n", "index": "i"}` in a buffer, whose `len` may then mention `i` |
//! | a place | `"at": [line, column]`, or `[line, column, file]` with the file's place in `files` |
//!
//! A name that is no word stands in backticks inside of text. One that an axis, a parameter and a counter
//! share, or that is one of `r`, `size`, `true`, `false`, `all`, `any`, is told apart: `axis.n`, `param.n`,
//! `counter.n`.
//!
//! A statement is an object with one of the keys
//!
//! | key | with |
//! |---|---|
//! | `compute`: its name | `arguments`, `reads`, `writes` |
//! | `collective`: `all_reduce` and so on | `reduction`, `root`, `from`, `into`, `among` |
//! | `transfer`: what is sent | `peer`, `into`, `among` |
//! | `send`: what is sent; `receive`: into what | `peer`, `among` |
//! | `put`: what is read | `peer`, `into`, `raises`: a signal, `among` |
//! | `signal`: its name | `peer`, `among` |
//! | `wait`: a list of `{"signal", "peer", "times"}` | `among` |
//! | `group`, `sequence`: statements | |
//! | `for`: a counter | `nth`, `from`, `to`, `reverse`, `do`: statements |
//! | `when`: a condition | `do`: statements |
//!
//! and, where it runs on a stream, `on` and `after`. Promises, covered regions, signals, streams and
//! counters are text, or objects `{"holds" | "region" | "name": text, "at": place}`.
//!
//! Counters may share a name, if their loops do not stand in each other. A `for`, like the index of an
//! array, then takes one after the other, in the order of their declarations; with `nth`, from 1, it takes
//! that one. In a number the name means the loop around it.
//!
//! A plan needs `name`, `axes`, `communicators` and `steps`; whatever else is missing is empty, or what
//! [`Plan`] says. `replayed` is true unless it is said, `launch` is `"eager"`, `order` is `"declared"`.
//!
//! Without a list `files`, a file has its places in its own text: what is wrong with the plan is told with
//! the lines of the JSON. Push its path onto [`Plan::files`] to have that named as well.

mod error;
mod formula;
mod layout;
mod names;
mod node;
mod read;
mod tree;
mod write;

pub use error::JsonError;

use crate::ir::Plan;

/// The key that says that a file is a plan, and in which version of the format.
const VERSION_KEY: &str = "typed-nccl-plan";

/// The version that is written and read.
const VERSION: &str = "1";

/// The most bytes of a text that is read.
pub const MOST_BYTES: usize = 16 << 20;

impl Plan {
    /// Reads a plan from a file in the [format](crate::json) above, and checks that it is well formed.
    ///
    /// Takes any bytes: the stack and the memory that it needs are bounded, and the time is the text's length.
    ///
    /// # Errors
    ///
    /// A [`JsonError`]: the text is none, is no JSON, has another shape, names what is not declared, or is no
    /// [plan](Plan::validate).
    pub fn from_json(text: impl AsRef<[u8]>) -> Result<Self, JsonError> {
        let bytes = text.as_ref();
        if bytes.len() > MOST_BYTES {
            return Err(JsonError::TooLarge { len: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            JsonError::NotUtf8 { line, column }
        })?;
        read::plan(text)
    }

    /// The plan as a file: the same text for the same plan.
    ///
    /// [`Plan::from_json`] reads it back as the same plan, if that is [well formed](Plan::validate) and its
    /// text is no longer than [`MOST_BYTES`]. What is written of another is for people.
    pub fn to_json(&self) -> String {
        write::plan(self)
    }
}
