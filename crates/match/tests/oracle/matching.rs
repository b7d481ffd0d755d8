//! Calls that meet by number.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use typed_nccl_match::{Channel, Compared, Log, Met, channels, unanswered, unlike};

/// A rank's call, or why it refused it; none if it has not come.
type Part = Option<Result<(u8, u8), usize>>;

/// Calls differ first in what they are, then in how they are configured.
fn differ(one: &(u8, u8), other: &(u8, u8)) -> Option<u8> {
    if one.0 != other.0 { Some(0) } else { (one.1 != other.1).then_some(1) }
}

/// All pairs of the n-th calls.
fn oracle(parts: &[Part]) -> Met<usize, u8> {
    if parts.contains(&None) {
        return Met::Pending;
    }
    if let Some((by, Some(Err(why)))) =
        parts.iter().enumerate().find(|(_, part)| matches!(part, Some(Err(_))))
    {
        return Met::Refused { by, why: *why };
    }
    let calls: Vec<_> = parts.iter().filter_map(|part| part.as_ref()?.as_ref().ok()).collect();
    let pairs = calls.iter().flat_map(|one| calls.iter().map(|other| differ(one, other)));
    pairs.flatten().min().map_or(Met::Alike, Met::Differs)
}

fn owned(met: Met<&usize, u8>) -> Met<usize, u8> {
    match met {
        Met::Pending => Met::Pending,
        Met::Refused { by, why } => Met::Refused { by, why: *why },
        Met::Differs(differs) => Met::Differs(differs),
        Met::Alike => Met::Alike,
    }
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        8 => (0..2_u8, 0..2_u8).prop_map(|call| Some(Ok(call))),
        1 => (0..9_usize).prop_map(|why| Some(Err(why))),
    ]
}

#[test]
fn every_meeting_of_three_is_decided_as_by_all_pairs() {
    let calls = (0..2).flat_map(|what| (0..2).map(move |how| Some(Ok((what, how)))));
    let all: Vec<Part> = calls.chain([None, Some(Err(1)), Some(Err(2))]).collect();
    for &a in &all {
        for &b in &all {
            for &c in &all {
                let (parts, mut channel) = ([a, b, c], Channel::new(3));
                for (rank, part) in parts.into_iter().enumerate() {
                    part.into_iter().for_each(|part| channel.come(0, rank, part));
                }
                let found = channel.get(0).map_or(Met::Pending, |one| owned(one.met(differ)));
                assert_eq!(found, oracle(&parts), "{parts:?}");
            }
        }
    }
}

proptest! {
    /// Ranks go on in any order, and refusals overtake calls that wait in queues.
    #[test]
    fn calls_that_come_in_any_order_meet_by_their_numbers(
        ranks in vec(vec(part(), 0..6), 1..4),
        order in vec((any::<prop::sample::Index>(), any::<bool>()), 24),
    ) {
        let size = ranks.len();
        let mut channel = Channel::new(size);
        let mut came = BTreeMap::new();
        let mut left: Vec<Vec<(u64, Part)>> =
            ranks.iter().map(|calls| (0..).zip(calls.iter().copied()).collect()).collect();
        let mut over = 0;
        for (pick, overtakes) in order {
            let rank = pick.index(size);
            let refusal = left[rank].iter().position(|(_, part)| matches!(part, Some(Err(_))));
            let at = refusal.filter(|_| overtakes).unwrap_or(0);
            if at >= left[rank].len() {
                continue;
            }
            let (number, part) = left[rank].remove(at);
            channel.come(number, rank, part.expect("it comes"));
            came.entry(number).or_insert_with(|| vec![None; size])[rank] = part;
            let meeting = channel.get(number).expect("somebody came");
            let expected = oracle(&came[&number]);
            prop_assert_eq!(owned(meeting.met(differ)), expected);
            for (member, part) in came[&number].iter().enumerate() {
                prop_assert_eq!(meeting.call(member), part.as_ref().and_then(|part| part.as_ref().ok()));
                prop_assert_eq!(meeting.lacks(member), part.is_none());
            }
            if expected != Met::Pending {
                channel.end(number);
                over += 1;
            }
            // What waits is what somebody came to and somebody did not.
            let waiting = channel.from(0).filter(|(_, one)| one.is_waiting());
            let pending = came.iter().filter(|(_, parts)| parts.contains(&None));
            prop_assert!(waiting.map(|(number, _)| number).eq(pending.map(|(number, _)| *number)));
        }
        let ended = came.values().filter(|parts| !parts.contains(&None)).count();
        prop_assert_eq!(over, ended);
    }

    #[test]
    fn sends_and_receives_meet_in_their_channels(
        mut sends in vec((0..4_u8, any::<u8>()), 0..20),
        mut receives in vec((0..4_u8, any::<u8>()), 0..20),
    ) {
        sends.sort_by_key(|one| one.0);
        receives.sort_by_key(|one| one.0);
        let of = |all: &[(u8, u8)], key| all.iter().filter(|one| one.0 == key).copied().collect();
        let mut expected: Vec<(Vec<_>, Vec<_>)> =
            (0..4).map(|key| (of(&sends, key), of(&receives, key))).collect();
        expected.retain(|(sends, receives)| !sends.is_empty() || !receives.is_empty());
        let found: Vec<_> =
            channels(&sends, &receives).map(|(s, r)| (s.to_vec(), r.to_vec())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn histories_are_unlike_where_their_calls_first_are(
        one in vec(0..2_u8, 0..6),
        other in vec(0..2_u8, 0..6),
    ) {
        let found = unlike(&one, &other, |one, other| one == other);
        let first = (0..6).find(|&at| one.get(at) != other.get(at));
        prop_assert_eq!(found, first.map(|at| (one.get(at), other.get(at))));
    }

    #[test]
    fn logs_that_forget_are_compared_as_far_as_they_are_remembered(
        steps in vec((any::<bool>(), part(), 0..3_u64), 0..40),
    ) {
        let mut logs = [History::default(), History::default()];
        let (mut compared, mut looked): (_, u64) = (Compared::default(), 0);
        for (which, part, forgets) in steps {
            let log = &mut logs[usize::from(which)];
            log.calls.push(part);
            log.oldest = (log.oldest + forgets).min(log.calls.len() as u64);
            let [one, other] = &logs;
            let until = one.known().end.min(other.known().end);
            let mut numbers = looked.max(one.oldest).max(other.oldest)..until;
            let expected = numbers.find(|&number| {
                let calls = [one, other].map(|log| log.calls[number as usize]);
                matches!(calls, [Some(Ok(one)), Some(Ok(other))] if one != other)
            });
            let mut first = None;
            let found = compared.next(&Some(one), other, |number, one, other| {
                first = first.or(Some(number));
                (one != other).then_some(number)
            });
            prop_assert!(first.is_none_or(|first| first >= looked), "{:?} again", first);
            prop_assert_eq!(found, expected);
            if found.is_none() {
                looked = until;
            }
        }
        let [one, other] = &logs;
        let expected = (one.oldest.max(other.known().end)..one.known().end)
            .filter_map(|number| Some((number, one.calls[number as usize]?.ok()?)));
        prop_assert!(unanswered(one, other).eq(expected));
        let nobody: Option<&History> = None;
        prop_assert_eq!(compared.next(&nobody, &logs[0], |number, _, _| Some(number)), None);
    }
}

#[derive(Default)]
struct History {
    calls: Vec<Part>,
    oldest: u64,
}

impl Log for History {
    type Call = (u8, u8);

    fn known(&self) -> Range<u64> {
        self.oldest..self.calls.len() as u64
    }

    fn call(&self, number: u64) -> Option<(u8, u8)> {
        self.calls[number as usize]?.ok()
    }
}

#[test]
fn what_is_void_waited() {
    let mut channel: Channel<&str, ()> = Channel::new(2);
    channel.come(0, 0, Ok("moves"));
    channel.come(0, 1, Ok("moves too"));
    channel.get_mut(0).expect("it is there").begin();
    channel.come(2, 1, Ok("waits"));
    channel.come(2, 0, Err(()));
    channel.come(3, 0, Ok("waits too"));
    assert_eq!(channel.void(), [(1, &"waits"), (0, &"waits too")]);
    assert!(channel.void().is_empty());
    channel.end(0);
    // Nobody came to number 1.
    assert_eq!(channel.from(0).map(|(number, _)| number).collect::<Vec<_>>(), [1, 2, 3]);
}
