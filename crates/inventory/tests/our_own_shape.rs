//! Our own formats, as people write them.

use bowline_inventory::{Format, read, write};

fn yaml_of(text: &str, format: Format) -> String {
    let inventory = read(text.as_bytes(), format).unwrap_or_else(|error| panic!("{error}"));
    write(&inventory, Format::Yaml).expect("YAML").text
}

#[test]
fn maps_and_lists_say_the_same() {
    let map = "
hosts:
  web1:
    labels: {role: web, rack: 12, version: 1.10}
    groups: [web]
    vars: {ports: [80, 443], note: yes}
    connection: {via: ssh, address: 10.0.0.1, port: 22, user: deploy}
  db1: {}
  lone:
groups:
  web: {vars: {tier: front}}
  prod: {groups: [web, db]}
";
    let list = r#"{
  "hosts": [
    {"name": "web1", "labels": {"role": "web", "rack": "12", "version": "1.10"}, "groups": ["web"],
     "vars": {"ports": [80, 443], "note": "yes"},
     "connection": {"via": "ssh", "address": "10.0.0.1", "port": 22, "user": "deploy"}},
    {"name": "db1"},
    {"name": "lone"}
  ],
  "groups": [{"name": "web", "vars": {"tier": "front"}}, {"name": "prod", "groups": ["web", "db"]}]
}"#;
    let shown = yaml_of(map, Format::Yaml);
    assert_eq!(shown, yaml_of(list, Format::Json));
    insta::assert_snapshot!(shown);
}

#[test]
fn the_same_host_twice_is_one() {
    let shown = yaml_of("hosts:\n- name: a\n- name: a\n", Format::Yaml);
    assert_eq!(shown.matches("name: a").count(), 1);
    let shown = yaml_of("name,groups\na,x;y\na,y x\n", Format::Csv);
    assert_eq!(shown.matches("name: a").count(), 1);
}

#[test]
fn byte_order_marks_and_carriage_returns_are_no_matter() {
    for (format, text) in [
        (Format::Yaml, "hosts:\n  a:\n    labels:\n      k: v\n"),
        (Format::Json, "{\"hosts\": [{\"name\": \"a\",\n \"labels\": {\"k\": \"v\"}}]}\n"),
        (Format::Csv, "name,labels\na,k=v\n"),
        (Format::AnsibleIni, "# x\na bowline_labels=k=v\n"),
        (Format::AnsibleYaml, "all:\n  hosts:\n    a:\n      bowline_labels:\n        k: v\n"),
        (
            Format::AnsibleJson,
            "{\"all\": [\"a\"],\n \"_meta\": {\"hostvars\": {\"a\": {\"bowline_labels\": \"k=v\"}}}}\n",
        ),
    ] {
        let from_windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(yaml_of(&from_windows, format), yaml_of(text, format), "{format}");
        assert!(yaml_of(text, format).contains("k: v"), "{format}");
    }
}

#[test]
fn a_table_as_a_spreadsheet_writes_it() {
    let table = "Name,Groups,Address,Port,Label:role,Var:ports,Var:version,via\r\n\
                 web1,\"web; prod\",10.0.0.1,22,web,\"[80, 443]\",1.10,\r\n\
                 sim1,,,,,,'=1+1,simulate\r\n\
                 here,,,,,,,\r\n\
                 ,,,,,,,\r\n";
    let shown = yaml_of(table, Format::Csv);
    insta::assert_snapshot!(shown);
}
