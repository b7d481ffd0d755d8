//! Groups.

use std::thread;

use crate::common::*;

/// Groups nest, and belong to a thread.
#[test]
fn a_group_that_is_not_open_does_not_end() {
    let (fake, api) = double("groups");
    let (start, end) = (|| call!(api, ncclGroupStart()), || call!(api, ncclGroupEnd()));
    assert_eq!([start(), start()], [OK; 2]);
    let elsewhere = thread::scope(|scope| scope.spawn(end).join());
    assert_eq!(elsewhere.expect("the double does not panic"), IU);
    assert_eq!([end(), end(), end()], [OK, OK, IU]);
    let threads: Vec<_> = fake.log().iter().map(|call| call.thread).collect();
    assert_eq!(threads, [0, 0, 1, 0, 0, 0]);
    assert_eq!(fake.misuse(), ["ncclGroupEnd: there is no group to end"; 2]);
}
