//! Invitations: newcomers come to a meeting with the ranks of a communicator that there is.
//!
//! Where all ranks are threads of one process by nature, the meeting is in memory, and the process
//! finds it by the invitation. Else it is over the network, at the process of rank 0, also where
//! all members are threads of one: newcomers may not be.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};

use serde::{Deserialize, Serialize};

use super::{Attendee, Control, Meeting, Ticket, UniqueId, with_id};
use crate::Result;
use crate::error::{BadInvitation, Error, Site};
use crate::lock::Mutex;
use crate::rank::Generation;

/// What lets newcomers into a communicator: see
/// [`Communicator::invite`](crate::Communicator::invite).
///
/// It is sent to them as bytes, or with `serde`, and serves for one
/// [`grow`](crate::Communicator::grow). It has a secret in it: who knows it can take part, and
/// nobody else can. Its `Debug` does not show that.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Invitation {
    place: UniqueId,
    members: u32,
    newcomers: u32,
    /// How the members number their ranks: newcomers do too.
    generation: u8,
}

/// The layout of invitations.
const LAYOUT: u8 = 2;

/// Where its numbers begin.
const NUMBERS: usize = 1;
const GENERATION: usize = NUMBERS + 8;
const PLACE: usize = GENERATION + 1;

const FOREIGN: &str = "the bytes are none that `invite` of this release made";

impl Invitation {
    /// How many bytes it is sent as.
    pub const BYTES: usize = PLACE + UniqueId::BYTES;

    /// To be sent to the newcomers.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = LAYOUT;
        bytes[NUMBERS..NUMBERS + 4].copy_from_slice(&self.members.to_le_bytes());
        bytes[NUMBERS + 4..GENERATION].copy_from_slice(&self.newcomers.to_le_bytes());
        bytes[GENERATION] = self.generation;
        bytes[PLACE..].copy_from_slice(&self.place.to_bytes());
        bytes
    }

    /// The invitation from what [`to_bytes`](Self::to_bytes) gave.
    ///
    /// # Errors
    /// [`Error::BadInvitation`]: bytes that are none.
    #[track_caller]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let none = |why: String| Err(bad(why, Site::caller()));
        let Ok(bytes) = <[u8; Self::BYTES]>::try_from(bytes) else {
            let (found, needed) = (bytes.len(), Self::BYTES);
            return none(format!("{found} bytes are none, which has {needed}: send all of them"));
        };
        let mut place = [0; UniqueId::BYTES];
        place.copy_from_slice(&bytes[PLACE..]);
        let number = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(number)
        };
        let (members, newcomers) = (number(NUMBERS), number(NUMBERS + 4));
        let generation = bytes[GENERATION];
        let is_one = Generation::from_byte(generation).is_some() && members > 0 && newcomers > 0;
        if bytes[0] != LAYOUT || !is_one {
            return none(FOREIGN.to_owned());
        }
        Ok(Self { place: UniqueId::from_bytes(place), members, newcomers, generation })
    }

    /// To the communicator of `members` ranks, numbered so, whose newcomers come to `place`.
    pub(crate) fn new(
        place: UniqueId,
        members: u32,
        newcomers: u32,
        generation: Generation,
    ) -> Self {
        Self { place, members, newcomers, generation: generation.to_byte() }
    }

    /// How many newcomers it is for.
    pub fn newcomers(&self) -> usize {
        self.newcomers as usize
    }

    /// How many ranks there will be.
    pub fn size(&self) -> usize {
        self.members as usize + self.newcomers as usize
    }

    pub(crate) fn place(&self) -> UniqueId {
        self.place
    }

    /// The seat of one of the newcomers.
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

/// What a rank knows of an invitation of its communicator.
pub(super) struct Invited {
    place: UniqueId,
    ticket: Ticket,
    /// The members have come to it; it may have failed since.
    used: bool,
}

impl Control {
    /// Where newcomers come: in this process if all ranks are threads of it, whatever they run on.
    pub(crate) fn open_rendezvous(&self, in_process: bool) -> Result<UniqueId> {
        match self.meeting.uplink() {
            Some(uplink) => uplink.open_rendezvous(),
            None if in_process => UniqueId::here(),
            None => UniqueId::new(),
        }
    }

    /// Remembers what the ranks agreed on in exchange `ticket`.
    pub(crate) fn invited(&self, ticket: Ticket, invitation: &Invitation) {
        let place = invitation.place;
        if place.is_here() {
            let size = invitation.members + invitation.newcomers;
            self.meeting.invite(ticket.0, size, |meeting| known().insert(place, Here::of(meeting)));
        }
        self.invited.borrow_mut().push(Invited { place, ticket, used: false });
    }

    /// Whether this rank can come with the invitation; why it cannot.
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

    /// This rank's seat beside the newcomers.
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

/// A meeting of this process to which newcomers come.
struct Here {
    meeting: Weak<Meeting>,
    /// Who has taken its seat.
    taken: BTreeSet<usize>,
}

impl Here {
    fn of(meeting: &Arc<Meeting>) -> Self {
        Self { meeting: Arc::downgrade(meeting), taken: BTreeSet::new() }
    }
}

type Known = HashMap<UniqueId, Here>;

/// Those that there are.
fn known() -> std::sync::MutexGuard<'static, Known> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock();
    known.retain(|_, here| here.meeting.strong_count() > 0);
    known
}

/// The meeting to which a newcomer comes, once.
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
    use super::{GENERATION, Generation, Invitation, UniqueId};
    use crate::error::Error;

    #[test]
    fn an_invitation_is_what_was_put_into_it() {
        let place = UniqueId::here().expect("there is chance");
        let generation = Generation::default().next();
        let invitation = Invitation::new(place, 3, 2, generation);
        let bytes = invitation.to_bytes();
        assert_eq!(Invitation::from_bytes(&bytes), Ok(invitation.clone()));
        assert_eq!(format!("{invitation:?}"), "Invitation of 2 to a communicator of 3");
        let mut of_no_generation = bytes;
        of_no_generation[GENERATION] = u8::MAX;
        for bad in [&bytes[1..], &[0; Invitation::BYTES], &[], &of_no_generation] {
            let error = Invitation::from_bytes(bad).expect_err("it is none");
            assert!(matches!(error, Error::BadInvitation(_)), "{error}");
        }
    }
}
