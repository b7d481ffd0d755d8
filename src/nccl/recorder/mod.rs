//! Records a rank's calls, for the other ranks of the process to read.
//!
//! The rank's thread writes with a few plain stores per call; a waiting thread reads.

mod others;
mod ring;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};
use typed_nccl_match::Log;

use others::{OtherCallsReport, Others};
use ring::{CallReport, Packed};
pub(super) use ring::{Ring, Word};

use crate::Rank;
use crate::error::{Call, Called, Operation};

/// How many collectives, and how many transfers per pair, are kept: about as many as CUDA lets a
/// thread enqueue ahead of its device.
const KEPT: usize = 1024;

/// Marks a transfer made by a kernel of this library.
const BY_A_KERNEL: u8 = 1;

/// One rank's calls. The fields that every collective changes are adjacent.
#[repr(C)]
pub(super) struct Recorder {
    /// Odd while the rank's thread is inside NCCL with an operation.
    inside: AtomicU64,
    collectives: Ring<KEPT>,
    /// By peer.
    sends: Transfers,
    receives: Transfers,
    /// Legs of exchanges by kernels: two calls a leg, either of which may have no peer.
    legs: OnceLock<Box<Ring<KEPT>>>,
    /// All calls except collectives.
    others: Others,
}

impl Recorder {
    pub(super) fn new(size: usize) -> Self {
        Self {
            inside: AtomicU64::new(0),
            collectives: Ring::new(),
            sends: Transfers::new(size),
            receives: Transfers::new(size),
            legs: OnceLock::new(),
            others: Others::new(),
        }
    }

    /// Marks that the rank's thread enters or leaves NCCL. Only that thread calls it.
    #[inline]
    pub(super) fn cross(&self) {
        self.inside.store(self.inside.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The number of the current stay inside NCCL, if there is one.
    pub(super) fn pending_call(&self) -> Option<u64> {
        Some(self.inside.load(Relaxed)).filter(|crossings| crossings % 2 == 1)
    }

    /// Records a collective. In `memory`, 1 means that what it sends is in a window, 2 what it
    /// receives; the other bits say how it is configured. Like all recording, only the rank's own
    /// thread does this.
    #[inline]
    pub(super) fn collective(&self, call: &Call, memory: u8) {
        self.collectives.put(&Packed::new(call, memory));
    }

    /// Records a call that is not a collective.
    pub(super) fn other(&self, call: &Call) {
        self.note(call, 0);
    }

    /// Records a leg of an exchange by a kernel.
    pub(super) fn leg(&self, leg: &Leg) {
        let legs = self.legs.get_or_init(|| Box::new(Ring::new()));
        for (call, number) in [(&leg.send, leg.place), (&leg.recv, leg.of)] {
            if call.peer.is_some() {
                self.note(call, BY_A_KERNEL);
            }
            legs.put(&Packed::new(call, number));
        }
    }

    fn note(&self, call: &Call, how: u8) {
        let packed = Packed::new(call, how);
        let transfers = match call.operation {
            Operation::SendTo => Some(&self.sends),
            Operation::RecvFrom => Some(&self.receives),
            Operation::Collective(_)
            | Operation::PutSignal
            | Operation::Signal
            | Operation::WaitSignal => None,
        };
        if let (Some(transfers), Some(peer)) = (transfers, call.peer) {
            transfers.put(peer.index(), &packed);
        }
        self.others.put(&packed, self.issued());
    }

    /// Records a refused collective; returns its number.
    pub(super) fn refused(&self) -> u64 {
        self.collectives.put(&Packed::REFUSED)
    }

    /// Records a refused send; returns its number.
    pub(super) fn refused_send(&self, to: usize) -> u64 {
        self.others.put(&Packed::REFUSED, self.issued());
        self.sends.put(to, &Packed::REFUSED)
    }

    /// Records a refused receive; returns its number.
    pub(super) fn refused_recv(&self, from: usize) -> u64 {
        self.others.put(&Packed::REFUSED, self.issued());
        self.receives.put(from, &Packed::REFUSED)
    }

    /// Records a refused put or signal.
    pub(super) fn refused_signal(&self) {
        self.others.put(&Packed::REFUSED, self.issued());
    }

    /// How many sends it made.
    pub(super) fn sent(&self, to: usize) -> u64 {
        self.sends(to).known().end
    }

    /// How many receives it made.
    pub(super) fn received(&self, from: usize) -> u64 {
        self.receives(from).known().end
    }

    /// How many collectives it made.
    pub(super) fn issued(&self) -> u64 {
        self.collectives.issued()
    }

    /// Its collectives, with which operands are in windows.
    pub(super) fn collectives(&self) -> &Ring<KEPT> {
        &self.collectives
    }

    /// Collective `number`, if it is still kept and was not refused.
    pub(super) fn call(&self, number: u64) -> Option<Call> {
        self.collectives.call(number).map(|(call, _)| call)
    }

    /// The legs of its exchanges.
    pub(super) fn legs(&self) -> Legs<'_> {
        Legs(self.legs.get().map(Box::as_ref))
    }

    /// Its sends to a rank, each with how it is made, which is the same on both sides.
    pub(super) fn sends(&self, to: usize) -> Option<&Ring<KEPT>> {
        self.sends.of(to)
    }

    /// Its receives from a rank, likewise.
    pub(super) fn receives(&self, from: usize) -> Option<&Ring<KEPT>> {
        self.receives.of(from)
    }

    /// Send `number` to a rank, if it is still kept and was not refused.
    pub(super) fn send(&self, to: usize, number: u64) -> Option<Call> {
        Some(self.sends(to).call(number)?.0)
    }

    /// Receive `number` from a rank, if it is still kept and was not refused.
    pub(super) fn receive(&self, from: usize, number: u64) -> Option<Call> {
        Some(self.receives(from).call(number)?.0)
    }

    /// The last call, if it was not refused.
    pub(super) fn last(&self) -> Option<Call> {
        self.backwards().next()?
    }

    /// Its calls, newest first; `None` for one that was refused or is no longer kept.
    fn backwards(&self) -> impl Iterator<Item = Option<Call>> {
        let (mut collectives, mut others) = (self.issued(), self.others.issued());
        std::iter::from_fn(move || {
            if let Some(number) = others.checked_sub(1)
                && let (after, call) = self.others.get(number)
                && after >= collectives
            {
                others = number;
                return Some(call);
            }
            collectives = collectives.checked_sub(1)?;
            Some(self.call(collectives))
        })
    }

    /// Its calls for other processes: the last `most` calls of each kind.
    pub(super) fn tell(&self, most: usize) -> Calls {
        Calls {
            collectives: self.collectives.tell(most),
            sends: self.sends.tell(most),
            receives: self.receives.tell(most),
            legs: self.legs.get().map(|legs| legs.tell(most)).unwrap_or_default(),
            others: self.others.tell(),
        }
    }

    /// Takes over calls of a rank of another process. Only one thread does so at a time.
    pub(super) fn hear(&self, calls: &Calls) {
        self.collectives.hear(&calls.collectives);
        self.sends.hear(&calls.sends);
        self.receives.hear(&calls.receives);
        if !calls.legs.is_empty() {
            self.legs.get_or_init(|| Box::new(Ring::new())).hear(&calls.legs);
        }
        self.others.hear(&calls.others);
    }

    /// Its calls, for reports.
    pub(super) fn called(&self, rank: Rank) -> Called {
        let mut last: Vec<_> = self.backwards().take(Called::LAST).collect();
        last.reverse();
        Called { rank, collectives: self.issued(), last }
    }
}

/// A leg of an exchange: two calls, either of which may have no peer.
pub(super) struct Leg {
    /// Its position among the exchange's legs.
    pub(super) place: u8,
    /// How many legs the exchange has.
    pub(super) of: u8,
    pub(super) send: Call,
    pub(super) recv: Call,
}

/// The legs of a rank's exchanges, by number.
pub(super) struct Legs<'r>(Option<&'r Ring<KEPT>>);

impl Legs<'_> {
    /// The numbers of the first legs among which another process made a different call.
    pub(super) fn first_unlike(&self, other: &Self) -> Option<Range<u64>> {
        let unlike = self.0?.first_unlike(other.0?)?;
        Some(unlike.start / 2..unlike.end / 2)
    }
}

impl Log for Legs<'_> {
    type Call = Leg;

    fn known(&self) -> Range<u64> {
        let calls = self.0.known();
        calls.start.div_ceil(2)..calls.end / 2
    }

    fn call(&self, number: u64) -> Option<Leg> {
        let (send, place) = self.0.call(2 * number)?;
        let (recv, of) = self.0.call(2 * number + 1)?;
        Some(Leg { place, of, send, recv })
    }
}

/// A rank's calls as sent to another process.
#[derive(Serialize, Deserialize)]
pub(super) struct Calls {
    collectives: CallReport,
    /// By peer.
    sends: Vec<(u32, CallReport)>,
    receives: Vec<(u32, CallReport)>,
    legs: CallReport,
    others: OtherCallsReport,
}

impl Calls {
    /// Whether the rank has called nothing.
    pub(super) fn is_empty(&self) -> bool {
        let Self { collectives, sends, receives, legs, others } = self;
        let is_none = sends.is_empty() && receives.is_empty() && others.is_empty();
        is_none && collectives.is_empty() && legs.is_empty()
    }
}

/// Transfers in one direction, by peer. Most ranks have none, and most pairs of ranks.
struct Transfers {
    size: usize,
    rings: OnceLock<Box<[OnceLock<Box<Ring<KEPT>>>]>>,
}

impl Transfers {
    fn new(size: usize) -> Self {
        Self { size, rings: OnceLock::new() }
    }

    fn of(&self, peer: usize) -> Option<&Ring<KEPT>> {
        self.rings.get()?.get(peer)?.get().map(Box::as_ref)
    }

    fn with(&self, peer: usize) -> Option<&Ring<KEPT>> {
        let all = self.rings.get_or_init(|| (0..self.size).map(|_| OnceLock::new()).collect());
        Some(all.get(peer)?.get_or_init(|| Box::new(Ring::new())))
    }

    fn put(&self, peer: usize, packed: &Packed) -> u64 {
        self.with(peer).map_or(0, |ring| ring.put(packed))
    }

    fn tell(&self, most: usize) -> Vec<(u32, CallReport)> {
        let ring = |(peer, ring): (usize, &OnceLock<Box<Ring<KEPT>>>)| {
            Some((u32::try_from(peer).ok()?, ring.get()?.tell(most)))
        };
        self.rings.get().into_iter().flatten().enumerate().filter_map(ring).collect()
    }

    fn hear(&self, told: &[(u32, CallReport)]) {
        for (peer, told) in told {
            if let Some(ring) = self.with(*peer as usize) {
                ring.hear(told);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use typed_nccl_match::Log;

    use super::ring::CallReport;
    use super::{KEPT, Recorder};
    use crate::error::{Call, Called, CollectiveName, Operation, Site};
    use crate::{DType, Rank, ReductionName};

    fn all_reduce(count: usize) -> Call {
        let mut call = Call::new(CollectiveName::AllReduce, DType::Bf16, count, Site::caller());
        call.reduction = Some(ReductionName::Mean);
        call
    }

    fn with(operation: Operation, peer: u32, count: usize) -> Call {
        let mut call = Call::new(operation, DType::F32, count, Site::caller());
        call.peer = Some(Rank(peer));
        call
    }

    #[test]
    fn what_was_called_is_told() {
        let recorder = Recorder::new(4);
        recorder.collective(&all_reduce(7), 2);
        let mut broadcast = Call::new(CollectiveName::Broadcast, DType::I8, 9, Site::caller());
        broadcast.root = Some(Rank(3));
        recorder.collective(&broadcast, 0);
        let told = recorder.collectives().call(0);
        assert!(told.is_some_and(|(call, memory)| call.matches(&all_reduce(7)) && memory == 2));
        let told = recorder.call(1);
        assert!(told.is_some_and(|call| call.matches(&broadcast) && call.site == broadcast.site));
        assert!(recorder.call(2).is_none());
    }

    #[test]
    fn a_recorder_keeps_no_peers_before_the_first_transfer() {
        let (recorder, mirror) = (Recorder::new(512), Recorder::new(512));
        recorder.collective(&all_reduce(7), 0);
        heard(&recorder, &mirror, 8);
        assert!(mirror.issued() == 1 && mirror.sends(1).is_none());
        assert!(mirror.sends.rings.get().is_none() && mirror.receives.rings.get().is_none());
    }

    #[test]
    fn every_operation_is_told_as_it_is() {
        let operations: Vec<_> = (0..=u8::MAX).map_while(super::ring::operation).collect();
        assert_eq!(operations.len(), CollectiveName::ALL.len() + 5);
        for (number, operation) in (0..).zip(operations) {
            assert_eq!(super::ring::number_of(operation), number, "{operation}");
        }
    }

    #[test]
    fn transfers_are_numbered_by_peer_and_direction() {
        let recorder = Recorder::new(3);
        recorder.other(&with(Operation::SendTo, 1, 10));
        recorder.other(&with(Operation::SendTo, 2, 20));
        recorder.other(&with(Operation::RecvFrom, 1, 30));
        recorder.other(&with(Operation::SendTo, 1, 40));
        let sends = |to, number| recorder.send(to, number).map(|call| call.count);
        assert_eq!([sends(1, 0), sends(1, 1), sends(2, 0)], [Some(10), Some(40), Some(20)]);
        assert_eq!([sends(1, 2), sends(0, 0), sends(3, 0)], [None; 3]);
        assert_eq!(recorder.receive(1, 0).map(|call| call.count), Some(30));
        assert_eq!((recorder.sent(1), recorder.received(1), recorder.received(2)), (2, 1, 0));
    }

    #[test]
    fn the_last_calls_are_told_in_their_order() {
        let recorder = Recorder::new(2);
        for count in 0..3 * Called::LAST {
            match count % 3 {
                0 => recorder.collective(&all_reduce(count), 0),
                1 => recorder.other(&with(Operation::SendTo, 1, count)),
                _ => recorder.other(&with(Operation::WaitSignal, 1, count)),
            }
        }
        let called = recorder.called(Rank(0));
        let counts: Vec<_> = called.last.iter().flatten().map(|call| call.count).collect();
        assert!(counts.iter().copied().eq(2 * Called::LAST..3 * Called::LAST), "{counts:?}");
        assert_eq!(called.collectives, Called::LAST as u64);
        assert_eq!(recorder.last().map(|call| call.count), counts.last().copied());
    }

    #[test]
    fn old_calls_are_forgotten() {
        let recorder = Recorder::new(1);
        let kept = KEPT as u64;
        for count in 0..2 * KEPT {
            recorder.collective(&all_reduce(count), 0);
        }
        let oldest = recorder.collectives().known().start;
        assert_eq!(oldest, kept + 1);
        assert!(recorder.call(oldest - 1).is_none());
        for number in oldest..2 * kept {
            assert_eq!(recorder.call(number).map(|call| call.count as u64), Some(number));
        }
    }

    /// Transfers the calls to another process's recorder.
    fn heard(recorder: &Recorder, mirror: &Recorder, most: usize) {
        let told = postcard::to_stdvec(&recorder.tell(most)).expect("calls are encoded");
        mirror.hear(&postcard::from_bytes(&told).expect("and decoded"));
    }

    #[test]
    fn numbers_that_no_rank_can_reach_are_not_taken_over() {
        let (recorder, mirror) = (Recorder::new(1), Recorder::new(1));
        (0..KEPT / 2).for_each(|count| recorder.collective(&all_reduce(count), 0));
        for report in [CallReport::made_up(u64::MAX, &[]), CallReport::made_up(9, &[u64::MAX / 2])]
        {
            mirror.collectives.hear(&report);
            assert_eq!((mirror.issued(), mirror.collectives().known()), (0, 0..0));
            assert!(recorder.collectives().first_unlike(mirror.collectives()).is_none());
            assert!(mirror.collectives().first_unlike(recorder.collectives()).is_none());
        }
    }

    #[test]
    fn another_process_hears_of_the_last_calls() {
        let (recorder, mirror) = (Recorder::new(3), Recorder::new(3));
        recorder.collective(&all_reduce(1), 3);
        recorder.refused();
        recorder.other(&with(Operation::SendTo, 2, 10));
        heard(&recorder, &mirror, 8);
        let (call, memory) = mirror.collectives().call(0).expect("it is remembered");
        assert!(call.matches(&all_reduce(1)) && memory == 3);
        assert_eq!(call.site, recorder.call(0).expect("it is remembered").site);
        assert!(
            mirror.call(1).is_none()
                && mirror.issued() == 2
                && mirror.collectives().known().start == 0
        );
        assert_eq!(mirror.send(2, 0).map(|call| call.count), Some(10));
        assert_eq!(mirror.called(Rank(1)).last.len(), 3);
    }

    #[test]
    fn another_process_hears_of_the_last_calls_in_their_order() {
        let (recorder, mirror) = (Recorder::new(2), Recorder::new(2));
        for count in 0..5 * Called::LAST {
            match count % 5 {
                0 | 1 => recorder.other(&with(Operation::SendTo, 1, count)),
                2 => recorder.refused_signal(),
                _ => recorder.collective(&all_reduce(count), 0),
            }
            heard(&recorder, &mirror, 64);
            let counts = |recorder: &Recorder| {
                let last = recorder.called(Rank(0)).last;
                last.iter().map(|call| call.map(|call| call.count)).collect::<Vec<_>>()
            };
            let expected = (0..=count).map(|count| (count % 5 != 2).then_some(count));
            let expected: Vec<_> = expected.collect();
            let expected = &expected[expected.len().saturating_sub(Called::LAST)..];
            assert_eq!(counts(&recorder), expected);
            assert_eq!(counts(&mirror), expected);
        }
    }

    #[test]
    fn what_another_process_did_not_tell_is_unknown() {
        let (recorder, mirror) = (Recorder::new(1), Recorder::new(1));
        (0..10).for_each(|count| recorder.collective(&all_reduce(count), 0));
        heard(&recorder, &mirror, 4);
        let counts = |recorder: &Recorder| {
            let known = recorder.collectives().known().start..recorder.issued();
            known.map(|n| recorder.call(n).expect("it is remembered").count).collect::<Vec<_>>()
        };
        assert_eq!(counts(&mirror), [6, 7, 8, 9]);
        // Sent again, with later calls.
        heard(&recorder, &mirror, 2);
        assert_eq!(counts(&mirror), [6, 7, 8, 9]);
        (10..12).for_each(|count| recorder.collective(&all_reduce(count), 0));
        heard(&recorder, &mirror, 4);
        assert_eq!(counts(&mirror), [6, 7, 8, 9, 10, 11]);
        (12..5000).for_each(|count| recorder.collective(&all_reduce(count), 0));
        heard(&recorder, &mirror, 2);
        assert_eq!(counts(&mirror), [4998, 4999]);
        heard(&recorder, &mirror, usize::MAX);
        assert_eq!((mirror.collectives().known().start, mirror.issued()), (4998, 5000));
    }

    #[test]
    fn calls_that_are_not_told_are_digested() {
        let (here, there, mirror) = (Recorder::new(2), Recorder::new(2), Recorder::new(2));
        for number in 0..700 {
            here.collective(&all_reduce(number), 0);
            there.collective(&all_reduce(if number == 333 { 1 } else { number }), 0);
            here.other(&with(Operation::SendTo, 1, number));
            there.other(&with(Operation::RecvFrom, 0, if number == 64 { 1 } else { number }));
        }
        heard(&there, &mirror, 4);
        assert_eq!(here.collectives().first_unlike(mirror.collectives()), Some(320..384));
        assert_eq!(
            here.sends(1).and_then(|sends| sends.first_unlike(mirror.receives(0)?)),
            Some(64..128)
        );
        // Sent once.
        assert_eq!(here.collectives().first_unlike(mirror.collectives()), None);
    }

    #[test]
    fn digests_wait_for_the_calls_that_they_are_of() {
        let (here, there, mirror) = (Recorder::new(1), Recorder::new(1), Recorder::new(1));
        (0..200).for_each(|number| there.collective(&all_reduce(number), 0));
        heard(&there, &mirror, 4);
        (0..100).for_each(|number| here.collective(&all_reduce(number), 0));
        assert_eq!(here.collectives().first_unlike(mirror.collectives()), None);
        (100..200).for_each(|number| here.collective(&all_reduce(2 * number), 0));
        assert_eq!(here.collectives().first_unlike(mirror.collectives()), Some(64..128));
    }

    #[test]
    fn a_refused_call_has_a_number_and_nothing_else() {
        let recorder = Recorder::new(2);
        recorder.collective(&all_reduce(1), 0);
        assert_eq!(recorder.refused(), 1);
        assert!(recorder.call(1).is_none());
        assert_eq!((recorder.refused_send(1), recorder.sent(1), recorder.received(1)), (0, 1, 0));
        assert!(recorder.send(1, 0).is_none() && recorder.last().is_none());
    }
}
