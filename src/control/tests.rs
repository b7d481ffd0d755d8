//! Ranks of one process.

use std::cell::Cell;
use std::sync::Arc;

use super::{Control, Meeting};
use crate::Rank;
use crate::communicator::Health;
use crate::error::Site;

fn ranks<const N: usize>() -> [(Control, Health); N] {
    let meeting = Meeting::new(u32::try_from(N).expect("few"));
    std::array::from_fn(|rank| {
        let health = Health::new("World", Rank::at(rank));
        (Control::new(meeting.clone(), Rank::at(rank).0), health)
    })
}

#[test]
fn a_value_common_to_all_ranks_is_computed_once() {
    let ranks = ranks::<3>();
    let post = |(control, _): &(Control, Health)| {
        control.post(
            "gather_values",
            Site::caller(),
            vec![7, u8::try_from(control.rank).unwrap_or(0)],
        )
    };
    let tickets = ranks.each_ref().map(post);
    let made = Cell::new(0);
    let each = ranks.iter().zip(tickets).map(|((control, health), ticket)| {
        let parts = control.try_collect(ticket, health).expect("well").expect("all are there");
        let sum = control.shared(ticket, |_| {
            made.set(made.get() + 1);
            parts.iter().map(|part| u32::from(part[1])).sum::<u32>()
        });
        (parts, sum)
    });
    let each: Vec<_> = each.collect();
    assert!(each.iter().all(|(parts, sum)| parts.len() == 3 && **sum == 3));
    // Shared by all: a copy for each of a thousand ranks would be a million contributions.
    assert!(
        each.iter()
            .all(|(parts, sum)| { Arc::ptr_eq(parts, &each[0].0) && Arc::ptr_eq(sum, &each[0].1) })
    );
    assert_eq!(made.get(), 1);
}
