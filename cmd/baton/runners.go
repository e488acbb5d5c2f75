package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/batonmcp/baton/sessions"
)

func newRunners() *cobra.Command {
	var asJSON, refresh bool
	c := &cobra.Command{
		Use:     "runners",
		Short:   "Show the agents that can be run, and what each said of itself",
		Example: "  baton runners --json",
		Args:    exactly(0, 0, "no argument beside its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := client()
			if err != nil {
				return err
			}
			res, err := api.RunnerList(c.Context(), caller(sessions.DefaultPrincipal), sessions.RunnerListArgs{Refresh: refresh})
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(os.Stdout)
				for _, r := range res.Runners {
					if err := e.Encode(r); err != nil {
						return err
					}
				}
				return nil
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "RUNNER\tPROTOCOL\tVERSION\tLOGIN\tMODELS\tEXECUTABLE OR PROBLEM")
			for _, r := range res.Runners {
				what := r.Executable
				if r.Problem != "" {
					what = r.Problem
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", r.Name, r.Protocol, r.Version, r.Login, len(r.Models), what)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one runner a line")
	c.Flags().BoolVar(&refresh, "refresh", false, "ask the programs again")
	return c
}
