//! Invitations: newcomers meet the ranks of an existing communicator.
//!
//! The meeting is in memory if the members are threads of one process and the backend's newcomers
//! then are too; the process finds it by the invitation. Otherwise it is over the network, in the
//! process of rank 0, even if all members are threads: newcomers may not be.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};

use serde::{Deserialize, Serialize};

use super::{Attendee, Control, Meeting, Ticket, UniqueId, with_id};
use crate::Result;
use crate::error::{BadInvitation, Error, Site};
use crate::lock::Mutex;
use crate::rank::Generation;

/// Admits newcomers to a communicator: see [`Communicator::invite`](crate::Communicator::invite).
///
/// Send it to them as bytes or with `serde`. It is valid for one
/// [`grow`](crate::Communicator::grow). It contains a secret: whoever has it can take part, and
/// nobody else can. `Debug` does not show the secret.
///
/// ```
/// use typed_nccl::{Communicator, Host, Invitation, Seat};
/// # use typed_nccl::{AnyDevice, Result};
///
/// fn join(bytes: &[u8]) -> Result<Communicator<Host<AnyDevice>>> {
///     let invitation = Invitation::from_bytes(bytes)?;
///     let seat = Seat::invited(&invitation, 0)?;
///     Communicator::builder().seat(seat).device(Host::any(1)?).build().connect()
/// }
///
/// # fn main() -> Result<()> {
/// let member = Seat::local(1).remove(0).init(Host::any(0)?)?;
/// let invitation = member.invite(1)?;
/// assert_eq!((invitation.newcomers(), invitation.size()), (1, 2));
/// let bytes = invitation.to_bytes();
/// std::thread::scope(|threads| {
///     threads.spawn(move || join(&bytes)?.finish());
///     let both = member.grow(invitation)?;
///     assert_eq!(both.size(), 2);
///     both.finish()
/// })
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Invitation {
    place: UniqueId,
    members: u32,
    newcomers: u32,
    /// The members' generation, which newcomers adopt.
    generation: u8,
}

const LAYOUT: u8 = 3;

const FOREIGN: &str = "the bytes are none that `invite` of this release made";

impl Invitation {
    /// The encoded length.
    pub const BYTES: usize = UniqueId::BYTES + 16;

    /// The encoding, to be sent to the newcomers.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Numbers take at most five bytes each, so it fits.
        let _ = postcard::to_slice(&(LAYOUT, self), &mut bytes);
        bytes
    }

    /// Decodes [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`Error::BadInvitation`]: the bytes are malformed.
    #[track_caller]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let none = |why: String| Err(bad(why, Site::caller()));
        let (found, needed) = (bytes.len(), Self::BYTES);
        if found != needed {
            return none(format!("{found} bytes are none, which has {needed}: send all of them"));
        }
        match postcard::take_from_bytes::<(u8, Self)>(bytes) {
            Ok(((LAYOUT, invitation), _)) if invitation.is_one() => Ok(invitation),
            _ => none(FOREIGN.to_owned()),
        }
    }

    fn is_one(&self) -> bool {
        let is_known = Generation::from_byte(self.generation).is_some();
        is_known && self.members > 0 && self.newcomers > 0
    }

    /// To a communicator of `members` ranks of this `generation`; newcomers come to `place`.
    pub(crate) fn new(
        place: UniqueId,
        members: u32,
        newcomers: u32,
        generation: Generation,
    ) -> Self {
        Self { place, members, newcomers, generation: generation.to_byte() }
    }

    /// The number of newcomers.
    pub fn newcomers(&self) -> usize {
        self.newcomers as usize
    }

    /// The number of ranks after growing.
    pub fn size(&self) -> usize {
        self.members as usize + self.newcomers as usize
    }

    pub(crate) fn place(&self) -> UniqueId {
        self.place
    }

    /// A newcomer's access to the meeting.
    pub(crate) fn seat(&self, newcomer: usize, site: Site) -> Result<Attendee> {
        let count = self.newcomers();
        if newcomer >= count {
            let why =
                format!("it is for {count} newcomers, who count from 0: there is no {newcomer}");
            return Err(bad(why, site));
        }
        let generation = Generation::from_byte(self.generation);
        let generation = generation.ok_or_else(|| bad(FOREIGN.to_owned(), site))?;
        let rank = self.members as usize + newcomer;
        let meeting = match self.place.is_here() {
            true => take(&self.place, rank).map_err(|why| bad(why.to_owned(), site))?,
            false => with_id(self.place, rank, self.size())?,
        };
        Ok(Attendee { meeting, rank, generation })
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { members, newcomers, .. } = self;
        write!(f, "Invitation of {newcomers} to a communicator of {members}")
    }
}

#[cold]
pub(crate) fn bad(why: String, site: Site) -> Error {
    Error::BadInvitation(Box::new(BadInvitation { why, site }))
}

/// A rank's record of an invitation.
pub(super) struct Invited {
    place: UniqueId,
    ticket: Ticket,
    /// The members have joined its meeting, even if growing failed since.
    used: bool,
}

impl Control {
    /// Opens a place for newcomers: in memory if the backend is `in_process`, else on the network.
    pub(crate) fn open_rendezvous(&self, in_process: bool) -> Result<UniqueId> {
        match self.meeting.uplink() {
            Some(uplink) => uplink.open_rendezvous(),
            None if in_process => UniqueId::here(),
            None => UniqueId::new(),
        }
    }

    /// Records the invitation that the ranks agreed on in exchange `ticket`.
    pub(crate) fn invited(&self, ticket: Ticket, invitation: &Invitation) {
        let place = invitation.place;
        if place.is_here() {
            let size = invitation.members + invitation.newcomers;
            self.meeting.invite(ticket.0, size, |meeting| known().insert(place, Here::of(meeting)));
        }
        self.invited.borrow_mut().push(Invited { place, ticket, used: false });
    }

    /// Checks that this rank can still use the invitation.
    pub(crate) fn may_grow(&self, invitation: &Invitation) -> Result<(), &'static str> {
        let all = self.invited.borrow();
        match all.iter().find(|known| known.place == invitation.place) {
            Some(Invited { used: false, .. }) => Ok(()),
            Some(_) => Err("it was used, and its newcomers did not come: `invite` again"),
            None => Err(
                "this communicator did not make it, or has grown or lost ranks since: `invite` with this one",
            ),
        }
    }

    /// This rank's access to the meeting with the newcomers.
    pub(crate) fn grown(&self, invitation: &Invitation) -> Result<Attendee> {
        let (rank, size) = (self.rank as usize, invitation.size());
        let mut all = self.invited.borrow_mut();
        let own = all.iter_mut().find(|known| known.place == invitation.place);
        let ticket = own.map(|own| {
            own.used = true;
            own.ticket
        });
        let meeting = match ticket {
            Some(ticket) if invitation.place.is_here() => {
                let members: Vec<u32> = (0..self.meeting.size()).collect();
                self.meeting.child(ticket.0, 0, rank, &members)
            }
            _ => with_id(invitation.place, rank, size)?,
        };
        Ok(Attendee { meeting, rank, generation: self.generation() })
    }
}

/// A meeting in memory that newcomers can join.
struct Here {
    meeting: Weak<Meeting>,
    /// The newcomers' ranks that have joined.
    taken: BTreeSet<usize>,
}

impl Here {
    fn of(meeting: &Arc<Meeting>) -> Self {
        Self { meeting: Arc::downgrade(meeting), taken: BTreeSet::new() }
    }
}

type Known = HashMap<UniqueId, Here>;

/// The open meetings of this process.
fn known() -> std::sync::MutexGuard<'static, Known> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock();
    known.retain(|_, here| here.meeting.strong_count() > 0);
    known
}

/// The meeting for a newcomer's rank, which can join once.
fn take(place: &UniqueId, rank: usize) -> Result<Arc<Meeting>, &'static str> {
    let mut known = known();
    let here = known.get_mut(place);
    match here.and_then(|here| Some((here.meeting.upgrade()?, here.taken.insert(rank)))) {
        Some((meeting, true)) => Ok(meeting),
        Some(_) => Err("this newcomer's seat was taken: each of them is one"),
        None => Err(
            "no communicator of this process waits for it: it has grown already, or has ended, or its ranks are threads of another process",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Generation, Invitation, UniqueId};
    use crate::error::Error;

    #[test]
    fn an_invitation_round_trips() {
        let place = UniqueId::here().expect("there is chance");
        let generation = Generation::default().next();
        let invitation = Invitation::new(place, 3, 2, generation);
        let bytes = invitation.to_bytes();
        assert_eq!(Invitation::from_bytes(&bytes), Ok(invitation.clone()));
        assert_eq!(format!("{invitation:?}"), "Invitation of 2 to a communicator of 3");
        let of_no_generation = Invitation { generation: u8::MAX, ..invitation }.to_bytes();
        for bad in [&bytes[1..], &[0; Invitation::BYTES], &[], &of_no_generation] {
            let error = Invitation::from_bytes(bad).expect_err("it is none");
            assert!(matches!(error, Error::BadInvitation(_)), "{error}");
        }
    }
}
