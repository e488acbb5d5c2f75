package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Registration is an entry that Baton wrote into the configuration of a host.
type Registration struct {
	Host string `json:"host"`
	File string `json:"file"`
	Name string `json:"name"`
}

// Records is the file that remembers the registrations: a project's configuration, or an entry of another name, is found
// nowhere else again. It is one user's, and written whole.
type Records struct{ Path string }

// Load reads it; a file that is not there has none.
func (r Records) Load() ([]Registration, error) {
	text, err := os.ReadFile(r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Registration
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of registrations %s cannot be read: %w", r.Path, err)
	}
	return all, nil
}

// Add remembers a registration.
func (r Records) Add(reg Registration) error {
	return r.change(func(all []Registration) []Registration {
		if slices.Contains(all, reg) {
			return all
		}
		return append(all, reg)
	})
}

// Remove forgets a registration.
func (r Records) Remove(reg Registration) error {
	return r.change(func(all []Registration) []Registration {
		return slices.DeleteFunc(all, func(x Registration) bool { return x == reg })
	})
}

func (r Records) change(how func([]Registration) []Registration) error {
	was, err := r.Load()
	if err != nil {
		return err
	}
	is := how(slices.Clone(was))
	if slices.Equal(was, is) {
		return nil
	}
	text, err := json.MarshalIndent(is, "", " ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(r.Path), filepath.Base(r.Path)+".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), r.Path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
