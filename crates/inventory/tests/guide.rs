//! The examples of the user guide are what they say they are.

use bowline_inventory::{Format, read};

const GUIDE: &str = include_str!("../../../docs/guide/inventories.md");

#[test]
fn every_example_of_the_guide_can_be_read_and_is_guessed_right() {
    let mut seen = Vec::new();
    for block in GUIDE.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').expect("a block has a language");
        let format = match language {
            "yaml" => Format::Yaml,
            "json" => Format::Json,
            "csv" => Format::Csv,
            "ini" => Format::AnsibleIni,
            other => panic!("no example is in {other}"),
        };
        let inventory = read(text.as_bytes(), format).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(!inventory.hosts.is_empty() && !inventory.groups.is_empty(), "{text}");
        assert_eq!(Format::guess(None, text.as_bytes()), Some(format), "{text}");
        seen.push(format);
    }
    assert_eq!(seen, [Format::Yaml, Format::Json, Format::Csv, Format::AnsibleIni]);
}
