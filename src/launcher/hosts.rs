//! Lists of machines as Slurm writes them: `gpu[01-03,07],login1`.

/// The first machine of a list, and whether there are more. `None` if it is not a list.
pub(super) fn first(list: &str) -> Option<(String, bool)> {
    let Some((prefix, rest)) = list.split_once(['[', ',']) else {
        return (!list.is_empty() && !list.contains(']')).then(|| (list.to_owned(), false));
    };
    if list[prefix.len()..].starts_with(',') {
        return (!prefix.is_empty() && !prefix.contains(']')).then(|| (prefix.to_owned(), true));
    }
    let (ranges, rest) = rest.split_once(']')?;
    let one = ranges.split([',', '-']).next()?;
    let is_number = !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit());
    let several_here = ranges.len() > one.len();
    // Text after the bracket belongs to the name up to the next comma, and may have brackets too.
    let (tail, more) = if rest.is_empty() || rest.starts_with(',') {
        (String::new(), !rest.is_empty())
    } else {
        first(rest)?
    };
    is_number.then(|| (format!("{prefix}{one}{tail}"), several_here || more))
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn the_first_machine_of_a_list() {
        let cases = [
            ("gpu1", Some(("gpu1", false))),
            ("gpu[01-03,07]", Some(("gpu01", true))),
            ("gpu[7,9-12],login1", Some(("gpu7", true))),
            ("login1,gpu[01-03]", Some(("login1", true))),
            ("gpu[5]", Some(("gpu5", false))),
            ("gpu[5],other", Some(("gpu5", true))),
            ("rack[0-1]node[3-4]", Some(("rack0node3", true))),
            ("rack[0]node[3]", Some(("rack0node3", false))),
            ("n[001-128]-ib", Some(("n001-ib", true))),
            ("a-1.example.org", Some(("a-1.example.org", false))),
            ("", None),
            ("gpu[", None),
            ("gpu[]", None),
            ("gpu]", None),
            ("gpu[x-y]", None),
            (",gpu1", None),
        ];
        for (list, expected) in cases {
            let found = first(list);
            let found = found.as_ref().map(|(host, more)| (host.as_str(), *more));
            assert_eq!(found, expected, "{list}");
        }
    }
}
