//! A rank's request to bind, before the ranks have agreed.

use std::sync::Arc;
use std::time::Instant;

use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::lower::{Decided, Instance};
use typed_nccl_plan::releases::ONE_SIGNAL;
use typed_nccl_plan::verdict::Sizes;

use super::whole::{Whole, through_all};
use crate::error::{Wrong, WrongBecause};

/// A plan with its sizes.
pub(super) struct Asked {
    whole: Whole,
    pub(super) sizes: Sizes,
    accepted: Accepted,
    /// The communicator's number of signals, and whether one of them replaces all of the plan's.
    pub(super) signals: u32,
    pub(super) one_signal: bool,
}

impl Asked {
    pub(super) fn new(plan: Arc<Plan>, accepted: Accepted, sizes: Sizes, signals: u32) -> Self {
        let one_signal = plan.signals.len() > signals as usize;
        Self { whole: through_all(plan), sizes, accepted, signals, one_signal }
    }

    /// The plan as it runs.
    pub(super) fn plan(&self) -> &Arc<Plan> {
        &self.whole.plan
    }

    /// The sizes at which it was checked, and when, as sentences.
    pub(super) fn checked(&self) -> String {
        match self.was_checked() {
            true => self.accepted.to_string(),
            false if self.accepted.is_empty() => {
                format!("Checked exactly for {}, when it was bound.", self.sizes.text)
            }
            false => {
                let Self { accepted, sizes, .. } = self;
                format!("{accepted} It was checked for {} when it was bound.", sizes.text)
            }
        }
    }

    fn was_checked(&self) -> bool {
        self.accepted.contains(&self.sizes)
    }

    /// The instance, written out. There is time for it, and for what is done with it, `until` then.
    pub(super) fn instance(&self, until: Option<Instant>) -> Result<Instance<'_>, Wrong> {
        Ok(Instance::new(&self.whole.plan, &self.sizes, until)?)
    }

    /// Checks the instance, for all ranks, unless that was done while it compiled, and decides how
    /// it is lowered.
    pub(super) fn decide(
        &self,
        instance: &mut Instance<'_>,
        until: Option<Instant>,
    ) -> Result<Decided, Wrong> {
        let Self { whole, sizes, .. } = self;
        match &whole.before {
            None if self.was_checked() => {}
            None => instance.check()?,
            Some((before, through)) => {
                // Errors of the plan itself come first.
                if !self.was_checked() {
                    Instance::new(before, sizes, until)?.check()?;
                }
                let because = || WrongBecause::AllRanks { through: through.clone() };
                instance.check().map_err(|rejected| Wrong { rejected, because: because() })?;
            }
        }
        if self.one_signal {
            self.with_one_signal(until)?;
        }
        let decided = instance.decide()?;
        if let Some(warning) = decided.warning() {
            log::warn!("plan `{}`: {warning}", self.plan().name);
        }
        Ok(decided)
    }

    /// Whether all of the plan's signals can be one.
    fn with_one_signal(&self, until: Option<Instant>) -> Result<(), Wrong> {
        let (plan, signals) = (self.plan(), self.signals);
        let one = Plan { target: plan.target.min(ONE_SIGNAL), ..(**plan).clone() };
        let because = WrongBecause::OneSignal { needed: plan.signals.len(), found: signals };
        let checked = Instance::new(&one, &self.sizes, until).and_then(|mut one| one.check());
        checked.map_err(|rejected| Wrong { rejected, because })
    }
}
