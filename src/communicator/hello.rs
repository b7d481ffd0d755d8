//! The greeting of a connecting rank, and whether the ranks fit together.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::adopted_comm::misfit;
use super::{Back, CommConfig};
use crate::backend::Lifecycle;
use crate::backend::Says;
use crate::config::Alike;
use crate::control::{self, Parts};
use crate::error::InitFailed;
use crate::{Device, Rank, Result, World};

/// The most signals of a communicator, over all pairs of ranks: a gigabyte.
const MOST_SIGNALS: usize = 1 << 26;

/// One rank's greeting.
#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    kind: String,
    /// The process that numbers its devices; 0 if all ranks share one.
    process: u64,
    /// Where the device is, for messages, and a number of its host, because two processes may
    /// number devices differently. `None` where ordinals suffice.
    place: Option<(String, u64)>,
    /// The release of the backend's library, if ranks may have different ones.
    release: String,
    ordinal: u32,
    /// Why it cannot share its device with another rank.
    not_shared: Option<String>,
    name: String,
    alike: Alike,
    /// What is wrong with its configuration.
    fault: Option<String>,
    /// If the program passed several ids: their number, and a hash of the list.
    ids: Option<(u32, u64)>,
    /// The properties of the communicator that the rank brings, if it brings one.
    raw: Option<Says>,
    /// The rank under which records show it.
    row: u32,
}

impl Hello {
    /// Encodes the greeting of a rank.
    pub(super) fn of<W: World>(
        ordinal: u32,
        config: &CommConfig,
        is_remote: bool,
        (ids, raw, row): (Option<(u32, u64)>, Option<Says>, u32),
    ) -> Vec<u8> {
        let hello = Self {
            kind: W::Device::KIND.to_owned(),
            // A process without a number has failed earlier.
            process: if is_remote { control::process().unwrap_or_default() } else { 0 },
            place: if is_remote { place::<W>(ordinal) } else { None },
            release: if is_remote { Back::<W>::release() } else { String::new() },
            ordinal,
            not_shared: Back::<W>::not_shared(),
            name: W::NAME.to_owned(),
            alike: config.alike(),
            fault: config.fault(),
            ids,
            raw,
            row,
        };
        // Strings and numbers always encode.
        postcard::to_stdvec(&hello).unwrap_or_default()
    }
}

/// Where a device is among those of all processes.
fn place<W: World>(ordinal: u32) -> Option<(String, u64)> {
    let (host, number) = control::host();
    let place = Back::<W>::place(ordinal)?;
    Some((format!("the {} device at {place} of {host}", W::Device::KIND), *number))
}

/// Describes a difference between two ranks that must not exist, if there is one.
fn differ(first: &Hello, hello: &Hello) -> Option<String> {
    if hello.kind != first.kind {
        let why = format!(
            "are on different kinds of device, {} and {}; one communicator spans one kind: give every rank a GPU, or start all with TYPED_NCCL=host if they use `launch!`",
            first.kind, hello.kind
        );
        return Some(why);
    }
    if hello.name != first.name {
        let why = format!(
            "name the communicator differently, {} and {}; give the same label on all ranks",
            first.name, hello.name
        );
        return Some(why);
    }
    if let Some(how) = first.alike.differs(&hello.alike) {
        return Some(format!("configure {how}; configure all ranks alike"));
    }
    if hello.ids != first.ids {
        let why = "give other ids; give all ranks the same ids, in the same order";
        return Some(why.to_owned());
    }
    if hello.release != first.release {
        let why = format!(
            "run {} and {}; run one release on all ranks, with one environment of NCCL's",
            first.release, hello.release
        );
        return Some(why);
    }
    None
}

/// Checks whether the ranks can form one communicator; the numbers that they began with. All ranks
/// see the same greetings, so they reach the same answer.
pub(super) fn agree(parts: &Parts) -> Result<Arc<[u32]>> {
    let size = parts.len();
    let fail = |ranks: Vec<usize>, why: String| {
        let ranks = ranks.into_iter().map(Rank::at).collect();
        Err(InitFailed { size, ranks, why }.into())
    };
    let mut hellos = Vec::with_capacity(size);
    for (rank, part) in parts.iter().enumerate() {
        match postcard::from_bytes::<Hello>(part) {
            Ok(hello) => hellos.push(hello),
            Err(_) => {
                return fail(vec![rank], "sent no greeting that this version reads".into());
            }
        }
    }
    if let Some((ranks, why)) = misfit(hellos.iter().map(|hello| (&hello.raw, hello.ordinal))) {
        return fail(ranks, why);
    }
    let mut devices = HashMap::new();
    for (rank, hello) in hellos.iter().enumerate() {
        let first = &hellos[0];
        if let Some(why) = differ(first, hello) {
            return fail(vec![0, rank], why);
        }
        if let Some(fault) = &hello.fault {
            return fail(vec![rank], format!("asks for what no NCCL has: {fault}"));
        }
        let (key, name) = match &hello.place {
            Some((place, host)) => ((*host, place.clone()), place.clone()),
            None => {
                let name = format!("{}:{}", hello.kind, hello.ordinal);
                ((hello.process, name.clone()), name)
            }
        };
        if let Some(other) = devices.insert(key, rank)
            && let Some(why) = &hello.not_shared
        {
            return fail(vec![other, rank], format!("are both on {name}; {why}"));
        }
    }
    if let Some(why) = too_many(size, hellos[0].alike.slots) {
        return fail(Vec::new(), why);
    }
    Ok(hellos.iter().map(|hello| hello.row).collect())
}

/// Describes an excessive number of contexts and signals, if it is excessive.
pub(super) fn too_many(size: usize, (contexts, signals): (u32, u32)) -> Option<String> {
    let each = [size, size, contexts as usize, signals as usize];
    let all = each.into_iter().try_fold(1_usize, usize::checked_mul);
    all.is_none_or(|all| all > MOST_SIGNALS).then(|| format!(
        "{contexts} contexts of {signals} signals, from each rank to each, are more than the {MOST_SIGNALS} that a communicator can have: configure fewer with `CommConfig::builder().contexts(..).signals(..)`"
    ))
}
