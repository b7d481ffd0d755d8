//! Names in the text of numbers: which of them say without more what they mean.

use std::collections::HashMap;
use std::fmt::{self, Write};

use super::{AxisId, LoopId, ParamId, Plan};

/// Words that mean something of their own where a number or a condition stands.
const RESERVED: [&str; 6] = ["r", "size", "true", "false", "all", "any"];

/// What a name in a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    Axis(AxisId),
    Param(ParamId),
    Counter(LoopId),
    /// Several of them.
    Ambiguous,
}

impl Meaning {
    /// Whether it is the same, or both are counters.
    fn is_like(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Counter(_), Self::Counter(_)))
    }
}

/// The names of a plan's axes, parameters and counters.
pub(crate) struct Names<'a> {
    pub(crate) plan: &'a Plan,
    meanings: HashMap<&'a str, Meaning>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let mut meanings = HashMap::new();
        let mut add = |name: &'a str, meaning: Meaning| {
            let before = meanings.entry(name).or_insert(meaning);
            // Counters may share a name; the loops around say which is meant.
            if !before.is_like(meaning) {
                *before = Meaning::Ambiguous;
            }
        };
        for (id, axis) in (0..).zip(&plan.axes) {
            add(&axis.name, Meaning::Axis(AxisId(id)));
        }
        for (id, param) in (0..).zip(&plan.params) {
            add(&param.name, Meaning::Param(ParamId(id)));
        }
        for (id, counter) in (0..).zip(&plan.counters) {
            add(&counter.name, Meaning::Counter(LoopId(id)));
        }
        Self { plan, meanings }
    }

    /// What a name means that stands alone.
    pub(crate) fn meaning(&self, name: &str) -> Option<Meaning> {
        self.meanings.get(name).copied()
    }

    /// The name of an axis, a parameter or a counter, as a number mentions it.
    pub(crate) fn write(&self, meaning: Meaning, out: &mut impl Write) -> fmt::Result {
        let plan = self.plan;
        let (kind, id, name) = match meaning {
            Meaning::Axis(id) => ("axis", id.0, plan.axes.get(id.index()).map(|one| &one.name)),
            Meaning::Param(id) => ("param", id.0, plan.params.get(id.index()).map(|one| &one.name)),
            Meaning::Counter(id) => {
                ("counter", id.0, plan.counters.get(id.index()).map(|one| &one.name))
            }
            Meaning::Ambiguous => return Ok(()),
        };
        let Some(name) = name else { return write!(out, "{kind}#{id}") };
        if self.meaning(name).is_some_and(|known| known.is_like(meaning))
            && !RESERVED.contains(&&**name)
        {
            write!(out, "{}", Quoted(name))
        } else {
            write!(out, "{kind}.{}", Quoted(name))
        }
    }
}

/// A name as it stands in text: in backticks unless it is a word.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_word(self.0) {
            return f.write_str(self.0);
        }
        f.write_char('`')?;
        for char in self.0.chars() {
            if matches!(char, '`' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(char)?;
        }
        f.write_char('`')
    }
}

/// Whether it is letters, digits and underscores, and does not begin with a digit.
fn is_word(name: &str) -> bool {
    name.starts_with(is_word_start) && name.chars().all(is_word_part)
}

pub(crate) fn is_word_start(char: char) -> bool {
    char == '_' || char.is_ascii_alphabetic()
}

pub(crate) fn is_word_part(char: char) -> bool {
    char == '_' || char.is_ascii_alphanumeric()
}
