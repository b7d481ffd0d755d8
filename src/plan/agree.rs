//! Every rank binds the same plan, or none does.

use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use typed_nccl_plan::lower::Schedule;

use crate::communicator::CanEnqueue;
use crate::communicator::State;
use crate::error::{BadPlan, Error, PlansDiffer, Site};
use crate::{Communicator, DType, Result, World};

/// What a rank says of the plan that it binds.
#[derive(Serialize, Deserialize)]
struct Part {
    plan: String,
    sizes: String,
    hash: u128,
    refused: Option<String>,
}

impl Part {
    /// What ranks that agree say alike.
    fn essence(&self) -> String {
        match &self.refused {
            Some(why) => format!("cannot: {why}"),
            None if self.sizes.is_empty() => {
                format!("bind `{}` (hash {:032x})", self.plan, self.hash)
            }
            None => format!("bind `{}` for {} (hash {:032x})", self.plan, self.sizes, self.hash),
        }
    }
}

/// Compares what the ranks bind; all of them learn of one that cannot.
pub(super) fn agree<W: World, S: State + CanEnqueue, T>(
    comm: &Communicator<W, S>,
    plan: &str,
    own: Result<(T, String, u128), String>,
    site: Site,
) -> Result<T> {
    let (part, own) = match own {
        Ok((own, sizes, hash)) => {
            (Part { plan: plan.to_owned(), sizes, hash, refused: None }, Ok(own))
        }
        Err(why) => {
            let refused = Some(why.clone());
            let part = Part { plan: plan.to_owned(), sizes: String::new(), hash: 0, refused };
            (part, Err(why))
        }
    };
    let parts = comm.gather_values(&part)?;
    let own =
        own.map_err(|why| Error::BadPlan(Box::new(BadPlan { plan: plan.to_owned(), why, site })))?;
    let essences: Vec<String> = parts.iter().map(Part::essence).collect();
    let differ = |other: &Part| other.refused.is_some() || other.hash != part.hash;
    if parts.iter().any(differ) {
        let name = W::NAME;
        return Err(Error::PlansDiffer(Box::new(PlansDiffer { name, parts: essences, site })));
    }
    Ok(own)
}

/// The hash of what all ranks do, by the calls alone: where a plan is written does not count.
pub(super) fn hash(schedule: &Schedule, dtypes: &[DType], lengths: &[Vec<u64>]) -> u128 {
    let mut hasher = SipHasher13::new();
    let mut write = |bytes: postcard::Result<Vec<u8>>| {
        // Numbers and strings always encode.
        hasher.write(&bytes.unwrap_or_default());
    };
    write(postcard::to_stdvec(&schedule.plan));
    write(postcard::to_stdvec(lengths));
    for dtype in dtypes {
        write(postcard::to_stdvec(&(*dtype as u32)));
    }
    for rank in &schedule.ranks {
        write(postcard::to_stdvec(&rank.calls.len()));
        for call in &rank.calls {
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
