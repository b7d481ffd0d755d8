//! What a plan was checked at.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ir::Plan;
use crate::verdict::{Problem, Sizes};

/// A plan was checked exactly at these sizes, and is right there.
///
/// See the example of [`PlanBuilder`](crate::build::PlanBuilder).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    axes: Vec<String>,
    params: Vec<String>,
    /// Extents and parameters, as in [`Sizes`].
    sizes: Vec<(Vec<i64>, Vec<Vec<i64>>)>,
    #[serde(skip)]
    warnings: Vec<Problem>,
}

impl Accepted {
    pub(crate) fn new(plan: &Plan, sizes: Vec<Sizes>, warnings: Vec<Problem>) -> Self {
        Self {
            axes: plan.axes.iter().map(|axis| axis.name.clone()).collect(),
            params: plan.params.iter().map(|param| param.name.clone()).collect(),
            sizes: sizes.into_iter().map(|sizes| (sizes.extents, sizes.params)).collect(),
            warnings,
        }
    }

    /// What is allowed, and most likely not meant. Not stored with a plan.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// At how many sizes.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether it was checked at none: each is too large, and is checked when the plan is bound.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Whether it was checked at these sizes.
    pub fn contains(&self, sizes: &Sizes) -> bool {
        self.sizes
            .iter()
            .any(|(extents, params)| *extents == sizes.extents && *params == sizes.params)
    }
}

impl fmt::Display for Accepted {
    /// One sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match self.sizes.len() {
            0 => return f.write_str("Checked at no size yet: each is checked when it is bound."),
            1 => "at one size".to_owned(),
            many => format!("at {many} sizes"),
        };
        write!(f, "Checked exactly {count}: ")?;
        let extents = (0..).zip(&self.axes).map(|(at, name)| {
            (name, self.sizes.iter().map(|(extents, _)| extents[at]).collect::<BTreeSet<_>>())
        });
        let params = (0..).zip(&self.params).map(|(at, name)| {
            let values = self.sizes.iter().flat_map(|(_, params)| params[at].iter().copied());
            (name, values.collect::<BTreeSet<_>>())
        });
        for (at, (name, values)) in extents.chain(params).enumerate() {
            let with = match at {
                0 => "",
                _ if at == self.axes.len() => "; with ",
                _ => ", ",
            };
            write!(f, "{with}`{name}` = {}", Ranges(&values))?;
        }
        f.write_str(". Other sizes are checked when it is bound.")
    }
}

/// Numbers for people: `1 to 17, 19, 23`.
struct Ranges<'a>(&'a BTreeSet<i64>);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut is_first = true;
        while let Some(first) = numbers.next() {
            let mut last = first;
            while let Some(next) = numbers.next_if(|next| *next == last + 1) {
                last = next;
            }
            let comma = if is_first { "" } else { ", " };
            is_first = false;
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first}, {last}")?,
                _ => write!(f, "{comma}{first} to {last}")?,
            }
        }
        Ok(())
    }
}
