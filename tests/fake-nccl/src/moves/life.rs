//! How ranks meet: in a new communicator, and in a child.

use std::collections::HashSet;
use std::env;
use std::ffi::c_int;
use std::process;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nccl_sys::{NCCL_SPLIT_NOCOLOR, ncclResult_t, ncclUniqueId};

use super::driver;
use super::end::Hold;
use super::folder;
use super::member::{Counted, Life, Member};
use super::room::{Room, Slots};
use crate::state::Refusal;

/// The identity that the ranks of a communicator share: the name of their room.
pub(crate) struct Id(String);

impl Id {
    /// A new id, unique among all processes, past and present.
    pub(crate) fn new(number: usize) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(format!("room.{}.{number:x}.{:x}", process::id(), time.as_nanos()))
    }

    pub(crate) fn to_nccl(&self) -> ncclUniqueId {
        let mut bytes = [0; 128];
        let name = self.0.as_bytes();
        bytes[..name.len()].copy_from_slice(name);
        ncclUniqueId::from_bytes(bytes)
    }

    /// Refuses an id that was never handed out, by which no rank is found.
    pub(crate) fn of(id: &ncclUniqueId) -> Result<Self, Refusal> {
        let bytes = id.to_bytes();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = str::from_utf8(name).ok().filter(|name| name.starts_with("room."));
        let name = name.filter(|name| !name.contains('/'));
        let name = name.ok_or_else(|| Refusal::argument("the id was never given"))?;
        Ok(Self(name.to_owned()))
    }
}

fn system(error: &std::io::Error) -> Refusal {
    Refusal { result: ncclResult_t::ncclSystemError, words: error.to_string() }
}

/// The relevant part of a communicator's configuration.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) slots: Slots,
    pub(crate) split_share: bool,
    pub(crate) blocks: bool,
}

/// Meets the other ranks in the room of the first id, and waits until all have come. Uses the
/// current device.
pub(crate) fn join(ids: &[Id], seat: (usize, usize), terms: Terms) -> Result<Arc<Member>, Refusal> {
    meet(ids, seat, terms, Arc::default(), || false)
}

fn meet(
    ids: &[Id],
    seat: (usize, usize),
    terms: Terms,
    life: Arc<Life>,
    is_over: impl Fn() -> bool,
) -> Result<Arc<Member>, Refusal> {
    let place = driver::here()?;
    let host = env::var("NCCL_HOSTID").unwrap_or_default();
    let names: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
    let list = names.join(",");
    let says = format!("{list} {host} {}", place.bus);
    let room = names.first().copied().unwrap_or_default();
    let path = folder().unwrap_or_else(|| "".as_ref()).join(room);
    let entered = Room::enter(path, seat, terms.slots, &says, is_over);
    let (room, said) = entered.map_err(|error| system(&error))?;
    let (lists, said): (Vec<&str>, Vec<&str>) =
        said.iter().map(|said| said.split_once(' ').unwrap_or(("", said))).unzip();
    if let Some(other) = lists.iter().find(|other| **other != list) {
        room.leave();
        return Err(Refusal::usage(format!("the ranks give other ids: {list} and {other}")));
    }
    let distinct: HashSet<&str> = said.iter().copied().collect();
    let shared = env::var("NCCL_MULTI_RANK_GPU_ENABLE").is_ok_and(|value| value == "1");
    if distinct.len() < said.len() && !shared {
        room.leave();
        return Err(Refusal::usage(format!("a device is there twice: {said:?}")));
    }
    let one_host = said.iter().all(|said| said.split(' ').next() == Some(&host));
    let (device, flags) = ((place.device, place.context), (one_host, terms.split_share));
    Ok(Member::new(room, device, flags, life))
}

/// Meets the ranks of the same color; all ranks of the parent call it. Returns `None` without a
/// color. A child without its own configuration has its parent's. The parent's configuration
/// decides whether it shares the parent's resources.
pub(crate) fn split(
    parent: &Arc<Member>,
    color: c_int,
    key: c_int,
    terms: Option<Terms>,
) -> Result<Option<Arc<Member>>, Refusal> {
    if parent.is_busy() {
        // NCCL may wait forever.
        return Err(Refusal::usage("operations of the parent are under way"));
    }
    let (room, number) = (&parent.room, parent.count(Counted::Child));
    let what = format!("split{number}");
    let everybody: Vec<usize> = (0..room.size).collect();
    room.post(&what, &everybody, &[&color.to_ne_bytes(), &key.to_ne_bytes()]);
    let _hold = Hold::new();
    let mut members = Vec::new();
    for rank in everybody {
        let said = parent.wait(|| room.take(&what, rank)).ok_or_else(revoked)?;
        let number = |at: usize| {
            let bytes = said.get(at..at + size_of::<c_int>()).and_then(|it| it.try_into().ok());
            bytes.map_or(0, c_int::from_ne_bytes)
        };
        if number(0) == color {
            members.push((number(size_of::<c_int>()), rank));
        }
    }
    if color == NCCL_SPLIT_NOCOLOR {
        return Ok(None);
    }
    members.sort_unstable();
    let own = members.iter().position(|(_, rank)| *rank == room.rank).unwrap_or(0);
    let id = child(parent, &format!("{number}.{color}"));
    let (seat, terms) = ((own, members.len()), terms.unwrap_or_else(|| parent.terms()));
    let life = if parent.is_over() { Arc::default() } else { parent.childs_life() };
    meet(&[id], seat, terms, life, || parent.is_over()).map(Some)
}

/// Meets the ranks that remain without these; only the remaining ranks call it.
pub(crate) fn shrink(
    parent: &Arc<Member>,
    excluded: &[usize],
    aborts: bool,
) -> Result<Arc<Member>, Refusal> {
    if aborts {
        parent.revoke();
    }
    let number = parent.count(Counted::Without(excluded.to_vec()));
    let list: Vec<String> = excluded.iter().map(usize::to_string).collect();
    let left: Vec<usize> = (0..parent.room.size).filter(|rank| !excluded.contains(rank)).collect();
    let own = left.iter().position(|rank| *rank == parent.room.rank).unwrap_or(0);
    let id = child(parent, &format!("{number}.without-{}", list.join("-")));
    let is_over = || !aborts && parent.is_over();
    meet(&[id], (own, left.len()), parent.terms(), Arc::default(), is_over)
}

/// Waits until all ranks have come.
pub(crate) fn barrier(member: &Arc<Member>) -> Result<(), Refusal> {
    let (room, number) = (&member.room, member.count(Counted::Barrier));
    let what = format!("barrier{number}");
    let everybody: Vec<usize> = (0..room.size).collect();
    room.post(&what, &everybody, &[&[1]]);
    let _hold = Hold::new();
    for rank in everybody {
        member.wait(|| room.take(&what, rank)).ok_or_else(revoked)?;
    }
    Ok(())
}

fn child(parent: &Member, name: &str) -> Id {
    let room = parent.room.path.file_name().unwrap_or_default().to_string_lossy();
    Id(format!("{room}.{name}"))
}

fn revoked() -> Refusal {
    Refusal { result: ncclResult_t::ncclInternalError, words: "revoked meanwhile".to_owned() }
}
