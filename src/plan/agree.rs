//! Agreement on binding: all ranks bind the same plan, or none does. The first rank checks it for
//! all.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use typed_nccl_plan::lower::{Decided, Schedule};

use super::pace::Pace;
use crate::communicator::CanEnqueue;
use crate::communicator::State;
use crate::error::{BadPlan, BindFault, Error, PlansDiffer, Site, Wrong};
use crate::{Communicator, DType, Result, World};

/// A rank's answer about the plan that it binds.
#[derive(Serialize, Deserialize)]
struct Answer {
    plan: String,
    sizes: String,
    hash: u128,
    refused: Option<String>,
    found: Option<Result<Decided, Wrong>>,
}

/// Why a rank cannot bind its plan.
#[derive(Clone)]
pub(super) enum Unbound {
    /// The plan, or its values.
    Fault(BindFault),
    /// A failure of memory or a stream.
    Error(Error),
}

impl<F: Into<BindFault>> From<F> for Unbound {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Error(error) => error.fmt(f),
        }
    }
}

/// The answer of a rank that can bind its plan.
pub(super) struct BindAnswer {
    /// The sizes.
    pub(super) sizes: String,
    /// Equal for ranks that bind the same plan.
    pub(super) hash: u128,
    /// From the rank that checks for all: its decisions, or the errors.
    pub(super) found: Option<Result<Decided, Wrong>>,
}

impl Answer {
    /// The part that is equal on ranks that agree.
    fn signature(&self) -> String {
        match &self.refused {
            Some(why) => format!("cannot: {why}"),
            None if self.sizes.is_empty() => {
                format!("bind `{}` (hash {:032x})", self.plan, self.hash)
            }
            None => format!("bind `{}` for {} (hash {:032x})", self.plan, self.sizes, self.hash),
        }
    }
}

/// Compares the ranks' plans; all learn of a rank that cannot bind, and of the result of the check.
pub(super) fn agree<W: World, S: State + CanEnqueue, T>(
    comm: &Communicator<W, S>,
    plan: &str,
    own: Result<(T, BindAnswer), Unbound>,
    site: Site,
) -> Result<(T, Option<Decided>)> {
    let name = plan.to_owned();
    let (part, own) = match own {
        Ok((own, BindAnswer { sizes, hash, found })) => {
            (Answer { plan: name, sizes, hash, refused: None, found }, Ok(own))
        }
        Err(why) => {
            let (sizes, refused) = (String::new(), Some(why.to_string()));
            (Answer { plan: name, sizes, hash: 0, refused, found: None }, Err(why))
        }
    };
    let parts = comm.gather_as("bind", &part, site)?;
    let bad = |why: Unbound| match why {
        Unbound::Fault(why) => Error::from(BadPlan { plan: plan.to_owned(), why, site }),
        Unbound::Error(error) => error,
    };
    let own = own.map_err(bad)?;
    let differ = |other: &Answer| other.refused.is_some() || other.hash != part.hash;
    if parts.iter().any(differ) {
        let (name, parts) = (W::NAME, parts.iter().map(Answer::signature).collect());
        return Err(PlansDiffer { name, parts, site }.into());
    }
    let found = parts.into_iter().find_map(|part| part.found).transpose();
    Ok((own, found.map_err(|wrong| bad(wrong.into()))?))
}

/// The hash of what all ranks do, by the calls alone: where a plan is written does not count. Of no
/// meaning if there was no time for all of them.
pub(super) fn hash(schedule: &Schedule, dtypes: &[DType], pace: &Pace) -> u128 {
    let mut hasher = SipHasher13::new();
    let mut write = |bytes: postcard::Result<Vec<u8>>| {
        // Numbers and strings always encode.
        hasher.write(&bytes.unwrap_or_default());
    };
    write(postcard::to_stdvec(&schedule.plan));
    for dtype in dtypes {
        write(postcard::to_stdvec(&dtype.digest()));
    }
    for rank in &schedule.ranks {
        write(postcard::to_stdvec(&rank.calls.len()));
        for call in rank.calls.iter().take_while(|_| !pace.is_over()) {
            write(postcard::to_stdvec(&(
                call.stream,
                &call.waits,
                &call.carried,
                &call.work,
                call.records,
            )));
        }
    }
    hasher.finish128().as_u128()
}

/// The hash of an instance whose checks the ranks share.
pub(super) fn hash_of(instance: &impl Hash) -> u128 {
    let mut hasher = SipHasher13::new();
    instance.hash(&mut hasher);
    hasher.finish128().as_u128()
}
