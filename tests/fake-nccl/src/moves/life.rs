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
use super::member::{Counted, Member};
use super::room::{Room, Slots};
use crate::state::Refusal;

/// What the ranks of one communicator have in common: the name of their room.
pub(crate) struct Id(String);

impl Id {
    /// One that nobody has had, in any process, now or earlier.
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

    /// Refuses what was never given: nobody is found by it.
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

/// Meets the other ranks: waits until all have come. The device is the one that is current.
pub(crate) fn join(
    id: &Id,
    rank: usize,
    size: usize,
    slots: Slots,
) -> Result<Arc<Member>, Refusal> {
    let place = driver::here()?;
    let host = env::var("NCCL_HOSTID").unwrap_or_default();
    let says = format!("{host} {}", place.bus);
    let path = folder().unwrap_or_else(|| "".as_ref()).join(&id.0);
    let (room, said) =
        Room::enter(path, (rank, size), slots, &says).map_err(|error| system(&error))?;
    let distinct: HashSet<&String> = said.iter().collect();
    if distinct.len() < said.len() {
        room.leave();
        return Err(Refusal::usage(format!("a device is there twice: {said:?}")));
    }
    let one_host = said.iter().all(|said| said.split(' ').next() == Some(&host));
    Ok(Member::new(room, place.device, place.context, one_host))
}

/// Meets the ranks of the same color; all ranks of the parent call it. None without a color.
pub(crate) fn split(
    parent: &Arc<Member>,
    color: c_int,
    key: c_int,
) -> Result<Option<Arc<Member>>, Refusal> {
    let (room, number) = (&parent.room, parent.count(Counted::Child));
    let what = format!("split{number}");
    let everybody: Vec<usize> = (0..room.size).collect();
    room.post(&what, &everybody, &[&color.to_ne_bytes(), &key.to_ne_bytes()]);
    let hold = Hold::new();
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
    drop(hold);
    if color == NCCL_SPLIT_NOCOLOR {
        return Ok(None);
    }
    members.sort_unstable();
    let own = members.iter().position(|(_, rank)| *rank == room.rank).unwrap_or(0);
    let id = child(parent, &format!("{number}.{color}"));
    join(&id, own, members.len(), room.slots()).map(Some)
}

/// Meets the ranks that are left without these; they call it, and those do not.
pub(crate) fn shrink(
    parent: &Arc<Member>,
    excluded: &[usize],
    aborts: bool,
) -> Result<Arc<Member>, Refusal> {
    if aborts {
        parent.revoke();
    }
    let number = parent.count(Counted::Child);
    let left: Vec<usize> = (0..parent.room.size).filter(|rank| !excluded.contains(rank)).collect();
    let own = left.iter().position(|rank| *rank == parent.room.rank).unwrap_or(0);
    let id = child(parent, &format!("{number}.left"));
    join(&id, own, left.len(), parent.room.slots())
}

fn child(parent: &Member, name: &str) -> Id {
    let room = parent.room.path.file_name().unwrap_or_default().to_string_lossy();
    Id(format!("{room}.{name}"))
}

fn revoked() -> Refusal {
    Refusal { result: ncclResult_t::ncclInternalError, words: "revoked meanwhile".to_owned() }
}
