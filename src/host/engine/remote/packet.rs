//! What the ranks of a communicator tell each other if they are in several processes.

use serde::{Deserialize, Serialize};

use super::super::active_group::HostOp;
use super::super::comm::CommState;
use super::super::meeting::Which;
use super::blocked::{Next, Until};
use super::circle::Found;
use crate::backend::form;
use crate::backend::{Departure, Refusal, Target, WindowId};
use crate::error::{Call, Operation};
use crate::host::Scale;
use crate::host::block::InUse;
use crate::host::far::Spot;
use crate::host::moves::Held;
use crate::host::shared::Address;

/// The beginning of each packet.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    /// Larger than of everything that its process had heard before.
    pub(super) tick: u64,
    pub(super) comm: u64,
    pub(super) rank: u32,
    /// If ranks are on several machines: by rank, how many events its process had said or heard,
    /// this one included.
    pub(super) causes: Vec<u64>,
}

/// What ranks tell each other over the control plane.
#[derive(Serialize, Deserialize)]
pub(super) enum Note {
    /// Where the rank's process shares its memory, and on which machine it is.
    At(Address, u64),
    /// Where MPI knows of the rank's process, for ranks on other machines.
    Spots(Vec<Spot>),
    /// The rank's process reaches the memory of every other one.
    Ready,
    /// An event follows, for ranks on other machines.
    Said,
    /// The rank reads these bytes of the receiver's process, in messages with this number.
    Fetch { number: u64, pieces: Vec<(u64, u32)> },
    /// The rank writes so many bytes into the receiver's window. They follow if they are few, or
    /// come in messages with this number.
    Put { number: u64, to: Target, bytes: u64 },
    /// The put with this number is complete.
    Written(u64),
}

impl Note {
    pub(super) fn bytes(&self, payload: &[u8]) -> Option<Vec<u8>> {
        match postcard::to_stdvec(self) {
            Ok(mut bytes) => {
                bytes.extend_from_slice(payload);
                Some(bytes)
            }
            Err(error) => {
                log::error!("a message to other ranks does not encode: {error}");
                None
            }
        }
    }
}

/// What a rank's peers learn of it, in the order in which it happens.
#[derive(Serialize, Deserialize)]
pub(in crate::host::engine) enum Event {
    /// Its stream has reached a group, or refuses it for a reason. Small parts that it sends follow
    /// the packet.
    Group { ops: Vec<(u64, NamedOp)>, refused: Option<String> },
    /// It refused calls with these numbers.
    Refused(Vec<(Refusal, u64)>, String),
    /// Its next call comes after all of these.
    Blocked(Next, Vec<Until>),
    /// Its process has found a deadlock of the communicator's ranks.
    Deadlock(Found),
    /// It has completed this many host-side exchanges.
    Exchanged(u64),
    /// It has completed this many steps of a collective or of a transfer.
    Moved(Which, u64, usize),
    /// Its next put is complete.
    Put,
    /// Its part of a window.
    Window(WindowId, Named),
    /// It uses a window no longer.
    NoWindow(WindowId),
    /// A closure of it has arrived at a barrier of a device communicator.
    Arrived(WindowId, usize),
    /// It issues nothing more; whether its communicator had ended before, for others' reasons.
    Left(String, Departure, Issued, bool),
    /// Another rank is gone.
    Gone { rank: u32, why: String, died: bool },
}

/// How much a rank has issued.
#[derive(Serialize, Deserialize)]
pub(in crate::host::engine) struct Issued {
    pub(super) groups: u64,
    pub(super) collectives: u64,
    /// By peer: sends and receives.
    pub(super) transfers: Vec<(u32, u64, u64)>,
}

/// Memory, as peers know it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(in crate::host::engine) enum Named {
    /// No peer reads it.
    Hidden,
    /// In the memory that the rank's process shares.
    Shared { offset: u64, bytes: u64 },
    /// So many bytes that follow the packet.
    Follows(u64),
}

/// An operation of a group. A scalar is its bytes.
pub(in crate::host::engine) type NamedOp = form::Op<Named, [u8; 8], Target, u8>;

/// Parts of at most so many bytes are sent with the call, and nobody waits until they are read.
pub(super) const EAGER: usize = 4096;

/// How many bytes a rank sends in a collective, if it sends any.
pub(super) fn sent(call: &Call, size: usize) -> usize {
    let parts = match call.operation {
        Operation::Collective(name) if name.spec().send.is_whole => size,
        _ => 1,
    };
    call.bytes().saturating_mul(parts)
}

/// Whether the parts of a call are sent with it: the same on all ranks.
pub(super) fn is_eager(call: &Call, size: usize) -> bool {
    sent(call, size) <= EAGER
}

impl HostOp {
    /// The operation as peers know it; what they read of small parts is added to `payload`. If a
    /// closure holds such a part, it cannot be read: it is returned in `in_use`.
    pub(super) fn named<'o>(
        &'o self,
        size: usize,
        payload: &mut Vec<u8>,
        in_use: &mut Option<&'o Held>,
    ) -> NamedOp {
        let call = self.op.call();
        let is_eager = is_eager(&call, size);
        let name = |held: &'o Option<Held>, is_written: bool| {
            let Some(held) = held else { return Named::Hidden };
            let is_read = match call.operation {
                // Only the receiver moves a transfer, and only the sender a put.
                Operation::RecvFrom => return Named::Hidden,
                Operation::PutSignal => false,
                _ => !is_written,
            };
            match held.shared_at() {
                Some(offset) if !is_eager => Named::Shared { offset, bytes: held.bytes() as u64 },
                _ if is_read => match held.append_to(payload) {
                    Ok(()) => Named::Follows(held.bytes() as u64),
                    Err(InUse) => {
                        *in_use = Some(held);
                        Named::Hidden
                    }
                },
                _ => Named::Hidden,
            }
        };
        let scalar = |scale: &Scale| scale.bytes(call.dtype.size());
        self.op.map(name, scalar, |to| *to, |config| *config)
    }
}

impl Scale {
    /// The scalar, padded with zeros.
    fn bytes(&self, size: usize) -> [u8; 8] {
        match self {
            Self::Host(bytes) => *bytes,
            Self::Device(allocation) => {
                let mut bytes = [0; 8];
                let from = allocation.block().start();
                // SAFETY: the memory holds an element, which has `size` bytes, at most 8; stream
                // order keeps writers before or after.
                unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), size.min(8)) };
                bytes
            }
        }
    }
}

impl CommState {
    /// How much a rank has issued.
    pub(super) fn issued_by(&self, rank: usize) -> Issued {
        let member = &self.members[rank];
        let transfers = (0..self.size()).filter_map(|peer| {
            let sent = self.issued(Which::Transfers { from: rank, to: peer }, 0);
            let received = self.issued(Which::Transfers { from: peer, to: rank }, 1);
            (sent + received > 0).then_some((peer as u32, sent, received))
        });
        Issued {
            groups: member.issued,
            collectives: member.collectives,
            transfers: transfers.collect(),
        }
    }
}
