//! What is written reads back: our own formats exactly, tables as far as they go, Ansible's formats with everything they
//! can say.

use std::collections::{BTreeMap, BTreeSet};

use bowline_inventory::{Format, Lost, read, write};
use bowline_model::host::{Connection, Group, Host, Inventory, Vars};
use bowline_model::name::{GroupName, HostName, Labels, WorkerName};
use proptest::prelude::*;
use serde_json::Value;

const GROUPS: [&str; 6] = ["web", "db", "web-fra", "site.ams", "x_1", "9"];

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 ._:/@-]{0,12}",
        2 => "[-+='\"#;,\\[\\]{}()0-9eExjTrueNonl~!&*|<>%@\t\r\n\\\\ ]{0,8}",
        1 => any::<String>(),
        1 => prop::sample::select(vec!["yes", "0755", "1.10", "null", "None", "True", "{{ x }}", "2001-12-14", "1:30", "set()", "'=x"])
            .prop_map(str::to_owned),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(any_text(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// `keys` are the names that variables may have.
fn any_vars(keys: impl Strategy<Value = String>) -> impl Strategy<Value = Vars> {
    prop::collection::btree_map(keys, any_value(), 0..4).prop_map(|map| map.into_iter().collect())
}

fn any_labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("[a-z0-9][a-z0-9._:/@-]{0,5}", "[a-zA-Z0-9][a-z0-9_:/@-]{0,5}", 0..4)
        .prop_filter_map("no two points", |map| Labels::new(map).ok())
}

fn any_connection() -> impl Strategy<Value = Connection> {
    let address = prop::option::of(prop_oneof![
        "[a-z0-9][a-z0-9-]{0,8}",
        Just("10.0.0.1".to_owned()),
        Just("fe80::1%eth0".to_owned())
    ]);
    let user =
        prop::option::of(prop_oneof!["[a-z_][a-z0-9_@.+-]{0,8}", Just("D\\svc$".to_owned()), Just("1000".to_owned())]);
    prop_oneof![
        prop::option::of("[a-z0-9][a-z0-9:/@-]{0,8}")
            .prop_map(|agent| Connection::Agent { agent: agent.map(|name| WorkerName::new(&name).expect("a name")) }),
        (address, prop::option::of(1u16..), user, any_labels())
            .prop_map(|(address, port, user, through)| Connection::Ssh { address, port, user, through }),
        any_labels().prop_map(|through| Connection::Simulate { through }),
    ]
}

fn some_groups() -> impl Strategy<Value = BTreeSet<GroupName>> {
    prop::sample::subsequence(GROUPS.to_vec(), 0..4)
        .prop_map(|names| names.into_iter().map(|name| GroupName::new(name).expect("a name")).collect())
}

/// Every group is listed; a group holds later groups only, so there are no circles.
fn any_inventory(keys: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Inventory> {
    let names =
        prop::collection::btree_set("[a-zA-Z0-9][a-zA-Z0-9/@_-]{0,10}|10\\.0\\.0\\.[1-9]|fe80::[a-f]{1,3}", 0..6);
    let host = (any_labels(), some_groups(), any_vars(keys.clone()), any_connection());
    let hosts = (names, prop::collection::vec(host, 6)).prop_map(|(names, rest)| {
        let made = names.into_iter().zip(rest).map(|(name, (labels, groups, vars, connection))| Host {
            name: HostName::new(&name).expect("a name"),
            labels,
            groups,
            vars,
            connection,
        });
        made.rev().collect::<Vec<_>>()
    });
    let groups = prop::collection::vec((some_groups(), any_vars(keys)), GROUPS.len()).prop_map(|rest| {
        let later = |index: usize, members: BTreeSet<GroupName>| {
            members.into_iter().filter(|name| GROUPS[index + 1..].contains(&name.as_str())).collect()
        };
        let made = rest.into_iter().enumerate().map(|(index, (members, vars))| Group {
            name: GroupName::new(GROUPS[index]).expect("a name"),
            groups: later(index, members),
            vars,
        });
        made.collect::<Vec<_>>()
    });
    (hosts, groups).prop_map(|(hosts, groups)| Inventory { hosts, groups })
}

fn any_key() -> impl Strategy<Value = String> + Clone {
    prop_oneof![3 => "[a-z_][a-z0-9_]{0,5}", 1 => any::<String>()].boxed()
}

fn plain_key() -> impl Strategy<Value = String> + Clone {
    "[a-z_][a-z0-9_]{0,5}".boxed()
}

fn there_and_back(inventory: &Inventory, format: Format) -> (Inventory, Vec<Lost>) {
    let written = write(inventory, format).expect("written");
    let back = read(written.text.as_bytes(), format).unwrap_or_else(|error| panic!("{error}\n{}", written.text));
    (back, written.lost)
}

proptest! {
    #[test]
    fn our_own_formats_keep_everything(inventory in any_inventory(any_key())) {
        for format in [Format::Yaml, Format::Json] {
            let (back, lost) = there_and_back(&inventory, format);
            prop_assert_eq!(&back, &inventory);
            prop_assert_eq!(lost, vec![]);
        }
    }

    #[test]
    fn tables_keep_every_host(inventory in any_inventory(any_key())) {
        let (back, lost) = there_and_back(&inventory, Format::Csv);
        prop_assert_eq!(&back.hosts, &inventory.hosts);
        // What is missing of the groups is what was said to be lost.
        for group in &inventory.groups {
            let came_back = back.groups.iter().find(|other| other.name == group.name);
            let is_lost = |lost: &Lost| match lost {
                Lost::GroupVariables { group: name } | Lost::GroupMembers { group: name } | Lost::EmptyGroup { group: name } => *name == group.name,
                _ => false,
            };
            prop_assert_eq!(came_back == Some(group), !lost.iter().any(is_lost));
        }
    }

    #[test]
    fn ansible_formats_keep_all_that_has_a_plain_name(inventory in any_inventory(plain_key())) {
        for format in [Format::AnsibleIni, Format::AnsibleYaml, Format::AnsibleJson] {
            let (back, lost) = there_and_back(&inventory, format);
            let lost: Vec<_> = lost.into_iter().filter(|lost| !matches!(lost, Lost::SharedName { .. })).collect();
            prop_assert_eq!(lost, vec![], "{}", format);
            let groups = |inventory: &Inventory| -> BTreeMap<GroupName, Group> {
                inventory.groups.iter().map(|group| (group.name.clone(), group.clone())).collect()
            };
            prop_assert_eq!(groups(&back), groups(&inventory), "{}", format);
            prop_assert_eq!(&back.hosts, &inventory.hosts, "{}", format);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in any_text()) {
        for format in Format::ALL {
            let _ = read(&bytes, format);
            let _ = read(text.as_bytes(), format);
        }
        let _ = Format::guess(None, &bytes);
        let _ = Format::guess(Some(&text), text.as_bytes());
    }

    #[test]
    fn what_is_written_is_guessed_right(inventory in any_inventory(plain_key()).prop_filter("hosts", |i| !i.hosts.is_empty())) {
        for format in Format::ALL {
            let text = write(&inventory, format).expect("written").text;
            prop_assert_eq!(Format::guess(None, text.as_bytes()), Some(format), "{}", text);
        }
    }
}

fn host(name: &str, groups: &[&str]) -> Host {
    let mut host = Host::named(HostName::new(name).expect("a name"));
    host.groups = groups.iter().map(|name| GroupName::new(name).expect("a name")).collect();
    host
}

fn group(name: &str, groups: &[&str], vars: Value) -> Group {
    let groups = groups.iter().map(|name| GroupName::new(name).expect("a name")).collect();
    let vars = vars.as_object().cloned().expect("an object");
    Group { name: GroupName::new(name).expect("a name"), groups, vars }
}

#[test]
fn what_ansible_cannot_say_is_told() {
    let mut odd = host("web:22", &[]);
    odd.vars.insert("x".to_owned(), 1.into());
    let mut web = host("web", &["web", "a:b"]);
    for (key, value) in
        [("ansible_host", "x"), ("ansible_password", "x"), ("bowline_labels", "a=b"), ("two words", "x")]
    {
        web.vars.insert(key.to_owned(), value.into());
    }
    let inventory =
        Inventory { hosts: vec![odd, web], groups: vec![group("web", &[], serde_json::json!({"ansible_port": 22}))] };
    let mut said = String::new();
    for format in [Format::AnsibleIni, Format::AnsibleYaml, Format::AnsibleJson] {
        let written = write(&inventory, format).expect("written");
        read(written.text.as_bytes(), format).expect("what is written can be read");
        for lost in written.lost {
            said.push_str(&format!("{format}: {lost}\n"));
        }
    }
    insta::assert_snapshot!(said);
}

#[test]
fn the_groups_that_ansible_has_anyway_come_back_with_their_variables() {
    let everybody = Inventory {
        hosts: vec![host("a", &["ungrouped"]), host("b", &["web"])],
        groups: vec![
            group("all", &["ungrouped", "web"], serde_json::json!({"x": 1})),
            group("ungrouped", &[], serde_json::json!({"y": 1})),
            group("web", &[], serde_json::json!({})),
        ],
    };
    for format in [Format::AnsibleIni, Format::AnsibleYaml, Format::AnsibleJson] {
        assert_eq!(there_and_back(&everybody, format), (everybody.clone(), vec![]), "{format}");
    }
    let mut others = everybody.clone();
    others.hosts.push(host("c", &[]));
    let error = write(&others, Format::AnsibleYaml).expect_err("c is not in all");
    assert_eq!(
        error.to_string(),
        "in Ansible the group all has every host; this one has not, so it needs another name"
    );
}

#[test]
fn an_inventory_that_contradicts_itself_is_not_written_for_ansible() {
    let said = |inventory: &Inventory| write(inventory, Format::AnsibleIni).expect_err("refused").to_string();
    let twice = Inventory { hosts: vec![host("a", &[]), host("a", &[])], groups: vec![] };
    assert_eq!(said(&twice), "there are two hosts a");
    let circle = Inventory { hosts: vec![], groups: vec![group("a", &["a"], serde_json::json!({}))] };
    assert_eq!(said(&circle), "the group a is in itself, through its own groups");
}

#[test]
fn a_large_fleet_is_read_and_written_in_every_format() {
    let mut text = String::from("[web]\nweb[00001:10000].example.com rack=12\n");
    for group in 0..100 {
        text.push_str(&format!("[row{group:02}]\nweb[{:05}:{:05}].example.com\n", group * 100 + 1, group * 100 + 100));
    }
    let fleet = read(text.as_bytes(), Format::AnsibleIni).expect("a fleet");
    assert_eq!((fleet.hosts.len(), fleet.groups.len()), (10_000, 101));
    assert_eq!(fleet.hosts[9_999].name.as_str(), "web10000.example.com");
    for format in Format::ALL {
        let (back, _) = there_and_back(&fleet, format);
        assert_eq!(back.hosts, fleet.hosts, "{format}");
    }
}
