//! Channels: where calls are counted, and so meet.

use std::collections::VecDeque;

use super::meeting::Meeting;

/// The collectives of a communicator, or the messages from one rank to another, as they come.
///
/// Parts come with their numbers, in any order: a refusal may be ahead of calls that wait in
/// queues. What is over is forgotten from the front.
#[derive(Debug)]
pub struct Channel<C, R> {
    size: usize,
    /// The number of the first one that is kept.
    first: u64,
    meetings: VecDeque<Meeting<C, R>>,
    /// To be used again.
    spare: Vec<Meeting<C, R>>,
}

impl<C, R> Channel<C, R> {
    /// For meetings of so many.
    pub const fn new(size: usize) -> Self {
        Self { size, first: 0, meetings: VecDeque::new(), spare: Vec::new() }
    }

    fn at(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// A meeting that somebody came to, or that is before one; none if it is forgotten.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&Meeting<C, R>> {
        self.meetings.get(self.at(number)?)
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Meeting<C, R>> {
        let at = self.at(number)?;
        self.meetings.get_mut(at)
    }

    /// A member has made its call number `number`, or refused it. Of what is forgotten it changes
    /// nothing.
    pub fn come(&mut self, number: u64, member: usize, part: Result<C, R>) {
        let Some(at) = self.at(number) else { return };
        // Those before it are kept too, or nothing behind them could be forgotten in order.
        while self.meetings.len() <= at {
            let meeting = self.spare.pop().unwrap_or_else(|| Meeting::new(self.size));
            self.meetings.push_back(meeting);
        }
        self.meetings[at].come(member, part);
    }

    /// A meeting is over.
    pub fn end(&mut self, number: u64) {
        if let Some(meeting) = self.get_mut(number) {
            meeting.end();
        }
        self.forget();
    }

    /// Ends all that wait; hands back the members that had made their calls, once for each call.
    pub fn void(&mut self) -> Vec<(usize, &C)> {
        let waiting = self.meetings.iter_mut().filter(|one| one.is_waiting());
        waiting.map(Meeting::end).flat_map(Meeting::calls).collect()
    }

    /// Forgets what is over.
    pub fn forget(&mut self) {
        while self.meetings.front().is_some_and(Meeting::is_over)
            && let Some(mut meeting) = self.meetings.pop_front()
        {
            meeting.reset();
            self.spare.push(meeting);
            self.first += 1;
        }
    }

    /// What is kept, from this number on.
    pub fn from(&self, number: u64) -> impl Iterator<Item = (u64, &Meeting<C, R>)> {
        let number = number.max(self.first);
        let passed = self.at(number).unwrap_or(usize::MAX);
        (number..).zip(self.meetings.iter().skip(passed))
    }
}

/// The sends and the receives of each channel that has any, in the order of the channels: the k-th
/// ones of a channel meet. Both lists are sorted by channel, and within one they are in the order
/// of the calls.
pub fn channels<'a, K: Ord, S, R>(
    mut sends: &'a [(K, S)],
    mut receives: &'a [(K, R)],
) -> impl Iterator<Item = (&'a [(K, S)], &'a [(K, R)])> {
    std::iter::from_fn(move || {
        let key = match (sends.first(), receives.first()) {
            (Some((send, _)), Some((receive, _))) => send.min(receive),
            (Some((key, _)), None) | (None, Some((key, _))) => key,
            (None, None) => return None,
        };
        Some((take(&mut sends, key), take(&mut receives, key)))
    })
}

/// The first calls of one number of two whole histories that do not meet: they are not alike, or
/// one is missing.
pub fn unlike<A, B>(
    one: impl IntoIterator<Item = A>,
    other: impl IntoIterator<Item = B>,
    alike: impl Fn(&A, &B) -> bool,
) -> Option<(Option<A>, Option<B>)> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return None,
            (Some(one), Some(other)) if alike(&one, &other) => {}
            apart => return Some(apart),
        }
    }
}

/// Takes what is of a channel from the front.
fn take<'a, K: PartialEq, T>(all: &mut &'a [(K, T)], key: &K) -> &'a [(K, T)] {
    let count = all.iter().take_while(|(own, _)| own == key).count();
    let (of, rest) = all.split_at(count);
    *all = rest;
    of
}
