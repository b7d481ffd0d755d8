//! Seats: places in a communicator that does not exist yet.

use std::collections::HashSet;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use crate::communicator::leave;
use crate::control::{self, Attendee, Control, Meeting, UniqueId};
use crate::error::{Error, InitFailed, Site};
use crate::rank::Generation;
pub(crate) use crate::rank::MOST_IN_PROCESS as MOST;
use crate::{CommConfig, Communicator, Device, Initializing, Invitation, Rank, Result};

/// One place in one communicator that does not exist yet: its rank, its size, and where the ranks
/// meet.
///
/// A seat is given once and used once: it is not `Clone`, and making a communicator consumes it. A
/// rank therefore cannot be taken twice, and an id cannot serve two communicators. Dropping a seat
/// unused is reported to the ranks that wait for it.
///
/// ```
/// use typed_nccl::{Host, Result, Seat};
///
/// # fn main() -> Result<()> {
/// let seat = Seat::local(1).remove(0); // of a communicator of one rank
/// let comm = seat.init(Host::local()?)?;
/// comm.finish()
/// # }
/// ```
#[must_use = "the other ranks wait for every seat to be taken"]
#[derive(Debug)]
pub struct Seat {
    meeting: Option<Arc<Meeting>>,
    rank: u32,
    size: usize,
    /// If the program passed several ids: their number, and a hash of the list.
    ids: Option<(u32, u64)>,
    /// Whether it joins a communicator that the other ranks already have.
    is_newcomer: bool,
    /// The generation, for a communicator that replaces another one.
    generation: Generation,
}

/// Refuses a communicator of more ranks than one process has.
pub(crate) fn fits(n: usize) -> Result<()> {
    if n <= MOST {
        return Ok(());
    }
    let why = format!("they do not fit into one process, which has {MOST} at most: ask for fewer");
    Err(Error::from(InitFailed { size: n, ranks: Vec::new(), why }))
}

impl Seat {
    /// The seats of a communicator of `n` ranks in this process, by rank.
    ///
    /// A process has at most 4096 ranks. Asked for more, this returns one seat, which
    /// [`init`](Self::init) and `connect` refuse.
    pub fn local(n: usize) -> Vec<Self> {
        let Some(ranks) = u32::try_from(n).ok().filter(|_| n <= MOST) else {
            let generation = Generation::default();
            return vec![Self {
                meeting: None,
                rank: 0,
                size: n,
                ids: None,
                is_newcomer: false,
                generation,
            }];
        };
        let meeting = Meeting::new(ranks);
        (0..n).map(|rank| Self::at(meeting.clone(), rank)).collect()
    }

    /// Seat `rank` of a communicator of `size` ranks in any number of processes. All pass the same
    /// `address`, as `host:port`: rank 0, which runs on that host, listens there until the ranks
    /// have met, and the others try it until their communicator's deadline has passed.
    /// Ranks on host devices share memory: their processes are on one machine, which runs Linux, or
    /// on several with the feature `mpi`, whose launcher starts them.
    ///
    /// Each participant proves that it knows `TYPED_NCCL_SECRET`; without that variable anybody who
    /// reaches the port can take part. See "How ranks meet" in the guide.
    ///
    /// ```no_run
    /// use typed_nccl::{Host, Result, Seat};
    ///
    /// # fn f(rank: usize, size: usize) -> Result<()> {
    /// let seat = Seat::tcp("10.0.0.1:29500", rank, size)?;
    /// # let _ = seat;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InitFailed`](crate::Error::InitFailed): an address that does not parse, a rank out
    /// of range, a port that rank 0 cannot listen on. [`init`](Self::init) and `connect` report
    /// anything else that prevents the ranks from meeting.
    pub fn tcp(address: impl AsRef<str>, rank: usize, size: usize) -> Result<Self> {
        Ok(Self::at(control::tcp(address.as_ref(), rank, size)?, rank))
    }

    /// Seat `rank` of a communicator of `size` ranks that share a file system. All pass the same
    /// `path`: rank 0 writes its address and a secret there, in a file that only its user can read,
    /// and the others wait for it. A file left by an earlier run does no harm.
    ///
    /// # Errors
    /// As [`tcp`](Self::tcp); a file that rank 0 cannot write.
    pub fn file(path: impl AsRef<Path>, rank: usize, size: usize) -> Result<Self> {
        Ok(Self::at(control::file(path.as_ref(), rank, size)?, rank))
    }

    /// Seat `rank` of the communicator of `size` ranks that `id` is for: see [`UniqueId`].
    ///
    /// # Errors
    /// As [`tcp`](Self::tcp); bytes that are not an id.
    pub fn with_id(id: UniqueId, rank: usize, size: usize) -> Result<Self> {
        Ok(Self::at(control::with_id(id, rank, size)?, rank))
    }

    /// [`with_id`](Self::with_id) with several ids for NCCL to connect the ranks by
    /// (`ncclCommInitRankScalable`, 2.23; older releases have one). All ranks pass the same `ids`
    /// in the same order, at most one per rank; they meet at the first.
    ///
    /// For each id, the first rank of a block of ranks creates one of NCCL's ids, and the control
    /// plane sends it to the others. Other seats use one per 128 ranks.
    ///
    /// # Errors
    /// As [`with_id`](Self::with_id); no id, more ids than ranks, or a duplicate. If ranks pass
    /// different ids, [`init`](Self::init) and `connect` report it.
    pub fn with_ids(ids: &[UniqueId], rank: usize, size: usize) -> Result<Self> {
        let fail = |why: String| Err(InitFailed { size, ranks: Vec::new(), why }.into());
        let distinct: HashSet<&UniqueId> = ids.iter().collect();
        let (Some(first), Ok(count)) = (ids.first(), u32::try_from(ids.len())) else {
            return fail("the ranks need an id to meet by: give one at least".to_owned());
        };
        if ids.len() > size {
            return fail(format!("{count} ids are more than there are ranks: give fewer"));
        }
        if distinct.len() < ids.len() {
            return fail("an id is there twice: make each with `UniqueId::new`".to_owned());
        }
        let mut hash = SipHasher13::new();
        ids.hash(&mut hash);
        let mut seat = Self::with_id(*first, rank, size)?;
        seat.ids = (count > 1).then(|| (count, hash.finish()));
        Ok(seat)
    }

    /// The seat of newcomer `newcomer`, counted from 0 among those that `invitation` is for. Their
    /// ranks come after those of the members, who call [`grow`](crate::Communicator::grow);
    /// `connect` waits for them and the other newcomers, within its own deadline.
    ///
    /// ```
    /// # use typed_nccl::{CommConfig, Communicator, Device, Invitation, Result, Seat};
    /// fn join<D: Device>(device: D, bytes: &[u8]) -> Result<Communicator<D>> {
    ///     let invitation = Invitation::from_bytes(bytes)?;
    ///     let seat = Seat::invited(&invitation, 0)?;
    ///     Communicator::builder().seat(seat).device(device).build().connect()
    /// }
    /// ```
    ///
    /// Newcomers use the members' configuration, except for the deadline, and their communicator's
    /// name. On host devices, members that are threads of one process have newcomers of that
    /// process only.
    ///
    /// # Errors
    /// [`Error::BadInvitation`]: there is no such newcomer; its seat was taken in this process; the
    /// communicator is gone, or has grown already. [`Error::InitFailed`]: bytes that are not an
    /// invitation. [`init`](Self::init) and `connect` report anything else that prevents the ranks
    /// from meeting.
    #[track_caller]
    pub fn invited(invitation: &Invitation, newcomer: usize) -> Result<Self> {
        let mut seat = Self::from(invitation.seat(newcomer, Site::caller())?);
        seat.is_newcomer = true;
        Ok(seat)
    }

    /// A seat at a meeting.
    pub(crate) fn at(meeting: Arc<Meeting>, rank: usize) -> Self {
        let size = meeting.size() as usize;
        let (rank, generation) = (Rank::at(rank).0, Generation::default());
        Self { meeting: Some(meeting), rank, size, ids: None, is_newcomer: false, generation }
    }

    /// The ids, if the program passed several.
    pub(crate) fn ids(&self) -> Option<(u32, u64)> {
        self.ids
    }

    /// The rank that takes this seat.
    pub fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    /// How many ranks the communicator will have.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Takes the seat on `device`: `Communicator::builder().seat(self).device(device)` and
    /// `connect`. All ranks must call it; the host waits for them for at most 10 minutes.
    ///
    /// # Errors
    /// As [`connect`](Communicator::connect): [`Error::Timeout`](crate::Error::Timeout) and
    /// [`Error::PeerFailed`](crate::Error::PeerFailed) name the ranks that did not join;
    /// [`Error::InitFailed`](crate::Error::InitFailed): a rank that cannot take part, or two ranks
    /// on one device.
    #[track_caller]
    pub fn init<D: Device>(self, device: D) -> Result<Communicator<D>> {
        Communicator::unnamed(self, device, CommConfig::default()).connect()
    }

    /// Takes the seat on `device` and returns immediately; `ready()` gives the communicator.
    ///
    /// # Errors
    /// The device cannot be used.
    #[track_caller]
    pub fn start<D: Device>(self, device: D) -> Result<Communicator<D, Initializing>> {
        Communicator::unnamed(self, device, CommConfig::default()).start()
    }

    /// The generation of the communicator.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn is_newcomer(&self) -> bool {
        self.is_newcomer
    }

    /// The seat's end of the control plane; a private one if there are too many ranks to meet.
    pub(crate) fn take(mut self) -> Control {
        let meeting = self.meeting.take().unwrap_or_else(|| Meeting::new(1));
        Control::new(meeting, self.rank).numbered(self.generation)
    }
}

impl From<Attendee> for Seat {
    fn from(Attendee { meeting, rank, generation }: Attendee) -> Self {
        let mut seat = Self::at(meeting, rank);
        seat.generation = generation;
        seat
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(meeting) = self.meeting.take() {
            let control = Control::new(meeting, self.rank);
            leave("its seat was dropped and never taken", move |why| control.depart(why));
        }
    }
}
