//! A plan that breaks one rule, and how its story has to read.

use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::verdict::{Check, Problem, Rejected};

use super::small;

/// A plan that breaks one rule, and how its story has to read.
#[derive(Debug)]
pub(crate) struct NearMiss {
    /// The plan.
    pub plan: PlanBuilder,
    /// The rule that it breaks, and no other.
    pub breaks: Check,
    /// The smallest extents at which it does, where they matter.
    pub smallest: Option<Vec<i64>>,
    /// Ranks that the story is about.
    pub ranks: Vec<usize>,
    /// Lines that it names.
    pub lines: Vec<u32>,
    /// What the help says.
    pub mends: Vec<&'static str>,
}

struct Expected {
    breaks: Check,
    smallest: Option<Vec<i64>>,
    ranks: Vec<usize>,
    lines: Vec<u32>,
    mends: Vec<&'static str>,
}

impl NearMiss {
    pub(crate) fn new(plan: PlanBuilder, breaks: Check) -> Self {
        let (ranks, lines, mends) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, breaks, smallest: None, ranks, lines, mends }
    }

    pub(crate) fn smallest(self, extents: impl Into<Vec<i64>>) -> Self {
        Self { smallest: Some(extents.into()), ..self }
    }

    pub(crate) fn ranks(self, ranks: impl Into<Vec<usize>>) -> Self {
        Self { ranks: ranks.into(), ..self }
    }

    /// Lines of `source` that end in such a comment.
    pub(crate) fn lines<const N: usize>(self, source: &str, comments: [&str; N]) -> Self {
        let line = |comment: &&str| {
            let found = (1..)
                .zip(source.lines())
                .find(|(_, line)| line.ends_with(&format!("// {comment}")));
            found.unwrap_or_else(|| panic!("no line ends in `// {comment}`")).0
        };
        Self { lines: comments.iter().map(line).collect(), ..self }
    }

    /// What the help says, among other things.
    pub(crate) fn mend(mut self, help: &'static str) -> Self {
        self.mends.push(help);
        self
    }

    /// Panics unless the plan is rejected as it should be.
    pub(crate) fn verify(self) {
        let breaks = self.breaks;
        let (plan, expected) = self.split();
        let Err(refused) = plan.check() else { panic!("accepted; it should break {breaks}") };
        expected.judge(refused.rejected());
    }

    /// Panics unless the plan for a few sizes is rejected as it should be.
    pub(crate) fn verify_for_few_sizes(self) {
        let breaks = self.breaks;
        let (plan, expected) = self.split();
        let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
        let Err(rejected) = check(&small::few(plan)) else {
            panic!("accepted; it should break {breaks}")
        };
        expected.judge(&rejected);
    }

    /// Panics unless the smallest instance of the plan that is rejected is rejected as it should
    /// be.
    pub(crate) fn verify_at_small_sizes(self) {
        let breaks = self.breaks;
        let (plan, expected) = self.split();
        let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
        let rejected = small::sizes(&plan).iter().find_map(|sizes| check_at(&plan, sizes).err());
        let Some(rejected) = rejected else { panic!("accepted; it should break {breaks}") };
        expected.judge(&rejected);
    }

    fn split(self) -> (PlanBuilder, Expected) {
        let Self { plan, breaks, smallest, ranks, lines, mends } = self;
        (plan, Expected { breaks, smallest, ranks, lines, mends })
    }
}

impl Expected {
    fn judge(self, rejected: &Rejected) {
        let Self { breaks, smallest, ranks, lines, mends } = self;
        println!("{rejected}");
        let problem = only(rejected, breaks);
        if let Some(extents) = smallest {
            let found = problem.sizes.as_ref().map(|sizes| sizes.extents.clone());
            assert_eq!(found, Some(extents), "another size:\n{rejected}");
        }
        let story = || problem.story.iter();
        for rank in ranks {
            let told = story().any(|line| line.rank == Some(rank) || line.other == Some(rank));
            assert!(told, "rank {rank} is not in the story:\n{rejected}");
        }
        for at in lines {
            let told = problem.at.line == at || story().any(|line| line.at.line == at);
            assert!(told, "line {at} is not in the story:\n{rejected}");
        }
        for mend in mends {
            let told = problem.help.iter().any(|help| help.contains(mend));
            assert!(told, "no help says `{mend}`:\n{rejected}");
        }
    }
}

/// The first problem, if all of them are this rule's.
fn only(rejected: &Rejected, breaks: Check) -> &Problem {
    assert!(rejected.breaks(breaks), "it should break {breaks}:\n{rejected}");
    for problem in &rejected.problems {
        assert!(problem.is_broken(), "not decided:\n{rejected}");
        assert_eq!(problem.check(), Some(breaks), "something else is reported:\n{rejected}");
    }
    &rejected.problems[0]
}
