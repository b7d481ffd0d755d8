//! The last calls that are known of a dead rank, which follow the reason for its death.

use super::{Call, Site};

const HOST_SIDE: &str = "; its last host-side call was ";
const KNOWN: &str = "; the last call that is known of it: ";

/// The host-side call that each rank makes first, to connect.
const FIRST: &str = "init";

/// Adds the rank's last host-side call.
pub(crate) fn with_host_side(why: &str, topic: &str, site: Site) -> String {
    format!("{why}{HOST_SIDE}{topic} at {site}")
}

/// Adds the last operation that is known of the rank, which was after it connected.
pub(crate) fn with_operation(why: &str, call: &Call) -> String {
    format!("{}{KNOWN}{call}", without_first(why))
}

/// The reason `known` if it says more than `why`, of the same death.
pub(crate) fn fuller(why: &str, known: &str) -> String {
    let says_more = known.starts_with(&format!("{}{KNOWN}", without_first(why)));
    if says_more { known.to_owned() } else { why.to_owned() }
}

/// The reason without the call that connected the rank, if that is its last host-side call.
fn without_first(why: &str) -> String {
    let Some((reason, call)) = why.split_once(HOST_SIDE) else { return why.to_owned() };
    let (topic, rest) = call.split_once(" at ").unwrap_or((call, ""));
    if topic != FIRST {
        return why.to_owned();
    }
    // Another reason may follow.
    let rest = rest.find("; ").map_or("", |at| &rest[at..]);
    format!("{reason}{rest}")
}

#[cfg(test)]
mod tests {
    use super::{fuller, with_host_side, with_operation};
    use crate::DType;
    use crate::error::{Call, CollectiveName, Site};

    #[test]
    fn a_later_call_replaces_the_one_that_connected() {
        let site = Site::caller();
        let call = Call::new(CollectiveName::AllReduce, DType::F32, 4, site);
        let known = format!("gone; the last call that is known of it: {call}");
        let connected = with_host_side("gone", "init", site);
        assert!(connected.contains("its last host-side call was init at src/error/"));
        assert_eq!(with_operation("gone", &call), known);
        assert_eq!(with_operation(&connected, &call), known);
        assert_eq!(fuller(&connected, &known), known);
        assert_eq!(fuller(&connected, "gone with others"), connected);
        let agreed = with_host_side("gone", "agree", site);
        let both = with_operation(&agreed, &call);
        assert!(both.contains("call was agree at ") && both.contains("known of it: all_reduce"));
        assert_eq!(fuller(&agreed, &both), both);
        let and = with_operation(&format!("{connected}; it was stopped"), &call);
        assert!(and.starts_with("gone; it was stopped; the last call"), "{and}");
    }
}
