//! Lengths of messages that each run passes.
//!
//! The plan was checked and lowered for the most of each. Fewer elements are the beginnings of the
//! same regions, so nothing else changes: a run writes its numbers into its messages. Whether the
//! ranks pass the same is compared as for any message.

use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

use super::give::Run;
use super::prepare::{Counted, Prepared, Template};
use crate::World;
use crate::error::ArgumentFault;

/// The lists that each run passes.
pub(super) struct Lists {
    /// Their names, and the place of each one's first number among all.
    names: Box<[(Box<str>, usize)]>,
    /// The most of each number.
    most: Box<[usize]>,
}

/// What the next run passes.
#[derive(Default)]
pub(super) struct Passed {
    /// All numbers, list by list.
    numbers: Vec<usize>,
    /// Whether each list was passed.
    is_passed: Vec<bool>,
    /// The groups whose messages have such lengths.
    pub(super) groups: Vec<Vec<Template>>,
}

impl Lists {
    pub(super) fn new(plan: &Plan, sizes: &Sizes) -> Self {
        let (mut names, mut most) = (Vec::new(), Vec::new());
        for id in &plan.counts {
            names.push((plan.params[id.index()].name.as_str().into(), most.len()));
            let numbers = sizes.params[id.index()].iter();
            most.extend(numbers.map(|&number| usize::try_from(number).unwrap_or(0)));
        }
        Self { names: names.into(), most: most.into() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Passed {
    pub(super) fn new(lists: &Lists, groups: Vec<Vec<Template>>) -> Self {
        let is_passed = vec![false; lists.names.len()];
        Self { numbers: lists.most.to_vec(), is_passed, groups }
    }

    /// Nothing is passed yet.
    pub(super) fn forget(&mut self) {
        self.is_passed.fill(false);
    }
}

impl<W: World> Run<'_, W> {
    /// Passes a list of numbers that each run has anew: lengths of messages, in elements, each at
    /// most the number that the plan was bound with. What a rank sends, its receiver must pass as
    /// well; the ranks compare that as for any message
    /// ([`Error::Mismatch`](crate::Error::Mismatch)). Numbers of messages between other ranks
    /// count for nothing.
    pub fn counts(mut self, name: &str, numbers: &[usize]) -> Self {
        if let Err(why) = self.count(name, numbers) {
            self.fault(name, why);
        }
        self
    }

    fn count(&mut self, name: &str, numbers: &[usize]) -> Result<(), ArgumentFault> {
        let Lists { names, most } = &self.fixed.lists;
        let Some(place) = names.iter().position(|(known, _)| **known == *name) else {
            let known = names.iter().map(|(name, _)| name.to_string()).collect();
            return Err(ArgumentFault::Unknown { known });
        };
        let passed = &mut self.moving.passed;
        if std::mem::replace(&mut passed.is_passed[place], true) {
            return Err(ArgumentFault::Twice);
        }
        let begin = names[place].1;
        let end = names.get(place + 1).map_or(most.len(), |(_, next)| *next);
        let most = &most[begin..end];
        if numbers.len() != most.len() {
            return Err(ArgumentFault::Numbers { found: numbers.len(), needed: most.len() });
        }
        if let Some(index) = numbers.iter().zip(most).position(|(number, most)| number > most) {
            let (found, most) = (numbers[index], most[index]);
            return Err(ArgumentFault::Most { index, found, most });
        }
        passed.numbers[begin..end].copy_from_slice(numbers);
        Ok(())
    }

    /// Writes this run's numbers into its messages. All must have been passed.
    #[inline(never)]
    pub(super) fn fill_counts(&mut self) {
        let passed = &mut self.moving.passed;
        let missing = passed.is_passed.iter().position(|is_passed| !is_passed);
        if let Some(at) = missing {
            return self.fault(&self.fixed.lists.names[at].0, ArgumentFault::Missing);
        }
        for step in &self.fixed.steps {
            let Prepared::Counted { group, counted, .. } = &step.work else { continue };
            let operations = &mut passed.groups[*group];
            for &Counted { at, number } in counted {
                if let Template::Transfer(transfer) = &mut operations[at] {
                    // At most what the spot had, which is inside its object.
                    transfer.span.len = passed.numbers[number];
                    transfer.call.count = passed.numbers[number];
                }
            }
        }
    }
}
