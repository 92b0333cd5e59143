// Package rulecases reads the cases of rules that several tests share, tests/data/rules.
package rulecases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Case is one of them; tests/data/rules/README.md says what the fields mean.
type Case struct {
	Name      string
	Policy    json.RawMessage
	Tenant    json.RawMessage
	Pod       json.RawMessage
	Objects   []json.RawMessage
	Ephemeral json.RawMessage
	Labelled  bool
	Each      []string
	Refused   bool
	Found     string
	Says      []string
	Sent      any
	APIServer bool `json:"apiserver"`
}

// Text is a case as it is written, for one value of those that it stands for.
type Text struct {
	JSON json.RawMessage
	Name string // with the value
}

// Strictly decodes JSON and refuses fields that are not known.
func Strictly(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// Read gives the cases of a file, one for each value of those that stand for several.
func Read(file string) (rule string, texts []Text, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	var all struct {
		Rule  string
		Cases []json.RawMessage
	}
	if err := Strictly(content, &all); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, raw := range all.Cases {
		var short struct {
			Name string
			Each []json.RawMessage
		}
		if err := json.Unmarshal(raw, &short); err != nil {
			return "", nil, fmt.Errorf("%s: %s: %w", file, raw, err)
		}
		if short.Each == nil {
			texts = append(texts, Text{raw, short.Name})
		}
		for _, one := range short.Each {
			inside := bytes.TrimSuffix(bytes.TrimPrefix(one, []byte(`"`)), []byte(`"`))
			texts = append(texts, Text{bytes.ReplaceAll(raw, []byte("$EACH"), inside), fmt.Sprintf("%s: %s", short.Name, inside)})
		}
	}
	return all.Rule, texts, nil
}
