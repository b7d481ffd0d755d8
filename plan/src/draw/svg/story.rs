use crate::verdict::Problem;
pub(crate) fn draw(_problem: &Problem) -> String { String::new() }
