//! What a plan says that memory holds, at the end of a run or at a statement.

use serde::{Deserialize, Serialize};

use super::{Condition, Expr, Location, LoopId, Operand, Peer, Reduction, Region};

/// A claim about memory: at the end of a run, or where a [`StepKind::Here`](super::StepKind::Here)
/// stands, each element of `to` is the reduction of the elements of `of` in its place.
///
/// Sources are meant with their content at the start of the run. At a `Here`, those that a run does
/// not begin with, `out` and `local` memory, are meant as their rank has them at that statement.
///
/// Its numbers are those of the rank that holds `to`, also in regions of other ranks. A source of a
/// rank past the end of an open axis is left out; without any source, `to` keeps its content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The loops and conditions around it, the outermost first.
    #[serde(default)]
    pub around: Vec<Around>,
    /// The region.
    pub to: Region,
    /// The reduction that combines the sources.
    pub by: Reduction,
    /// The sources, each as long as `to`. A single one is copied.
    pub of: Vec<Source>,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// A region of a rank, or one for each turn of loops: of a claim, or of an
/// [`Assign`](super::Assign).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The loops and conditions around it, the outermost first.
    #[serde(default)]
    pub around: Vec<Around>,
    /// The region.
    pub region: Region,
    /// The rank whose region it is.
    pub rank: Peer,
}

/// A loop or a condition around a claim or a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Around {
    /// For each value of a counter.
    Each(Each),
    /// Only where this holds.
    When(Condition),
}

/// The values of a counter, as those of a [`Loop`](super::Loop).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// The counter.
    pub counter: LoopId,
    /// Its first value.
    pub from: Expr,
    /// The end, excluded.
    pub to: Expr,
    /// The base, if it takes only its powers.
    #[serde(default)]
    pub powers: Option<Expr>,
}

impl Each {
    /// The numbers in it.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = &Expr> {
        [&self.from, &self.to].into_iter().chain(&self.powers)
    }
}

impl Claim {
    /// Its operands.
    pub(crate) fn operands<'a>(&'a self, each: &mut dyn FnMut(Operand<'a>)) {
        around(&self.around, each);
        each(Operand::Region(&self.to));
        each(Operand::Entries(self.of.len()));
        self.of.iter().for_each(|source| source.operands(each));
    }
}

impl Source {
    /// A region of this rank.
    pub const fn own(region: Region) -> Self {
        Self { around: Vec::new(), region, rank: Peer::Shift(Vec::new()) }
    }

    /// Whether it is a region of this rank, whatever the sizes.
    pub fn is_own(&self) -> bool {
        matches!(&self.rank, Peer::Shift(hops) if hops.is_empty())
    }

    /// Its operands.
    pub(crate) fn operands<'a>(&'a self, each: &mut dyn FnMut(Operand<'a>)) {
        around(&self.around, each);
        each(Operand::Region(&self.region));
        self.rank.operands(each);
    }
}

fn around<'a>(list: &'a [Around], each: &mut dyn FnMut(Operand<'a>)) {
    each(Operand::Entries(list.len()));
    for one in list {
        match one {
            Around::Each(this) => this.numbers().for_each(|number| each(Operand::Number(number))),
            Around::When(condition) => each(Operand::Truth(condition)),
        }
    }
}
