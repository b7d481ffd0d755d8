//! Several collectives in a row on the same buffers, with launches and host copies between them and
//! no other wait.

use super::check::check;
use super::strategies::{Scope, program, random};

#[test]
fn programs() {
    random(250, &program(Scope::ALL), |case| check(&case));
}
