//go:build !linux

package sandbox

func lookAtFiles() OpenFiles { return OpenFiles{} }

func (o OpenFiles) writer(string) (int, string) { return 0, "" }
