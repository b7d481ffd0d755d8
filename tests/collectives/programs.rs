//! Several collectives in a row on the same buffers, with launches and host copies between them and
//! no other wait.

use crate::check::check;
use crate::strategies::{program, random};

#[test]
fn programs() {
    random(250, &program(), |case| check(&case));
}
