package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/kit/bundle"
)

const keyLong = `The key by which you sign what you publish.

  assay key new              make one, in ` + keyPlace + `
  assay key show             the half that you tell others
  assay key new work.pem     in a file of your own

Only you can read the file (mode 0600); a file that others may read is refused.
Whoever has it can sign in your name: keep a copy in a safe place. What key show
prints is what others demand with "assay verify --key". The file is PEM, PKCS #8,
as openssl reads it.

EXIT STATUS
  0  ok
  1  the file exists already, can't be read, or is no key
  2  wrong usage`

// keyPlace is where the key is without a name of its own.
const keyPlace = "$XDG_CONFIG_HOME/assay/key.pem (~/.config/assay/key.pem)"

func newKeyCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make or show the key that signs bundles",
		Long:  keyLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("key: new or show is missing (see: assay key --help)")
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "new [FILE]", Short: "Make a key", Long: keyLong, Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runKeyNew(env, args) },
	})
	cmd.AddCommand(&cobra.Command{
		Use: "show [FILE]", Short: "Show the public half of a key", Long: keyLong, Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runKeyShow(env, args) },
	})
	return cmd
}

// keyFile is the file that is named, or the usual one.
func keyFile(env *Env, args ...string) (string, error) {
	if len(args) > 0 && args[0] != "" {
		return args[0], nil
	}
	base := env.Getenv("XDG_CONFIG_HOME")
	if base == "" {
		home := env.Getenv("HOME")
		if home == "" {
			return "", usagef("neither XDG_CONFIG_HOME nor HOME is set: name the file of the key")
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "assay", "key.pem"), nil
}

func runKeyNew(env *Env, args []string) error {
	path, err := keyFile(env, args...)
	if err != nil {
		return err
	}
	k, err := bundle.NewKey()
	if err != nil {
		return err
	}
	if err := k.Store(path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\nkept in %s: only you can read it, so keep a copy\n", k.Public(), path)
	return err
}

func runKeyShow(env *Env, args []string) error {
	k, _, err := loadKey(env, args...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, k.Public())
	return err
}

// loadKey reads the key that is named, or the usual one.
func loadKey(env *Env, args ...string) (*bundle.Key, string, error) {
	path, err := keyFile(env, args...)
	if err != nil {
		return nil, "", err
	}
	k, err := bundle.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w (assay key new makes one)", err)
	}
	return k, path, err
}

// publicKey is a key as text, or that of a file which holds such a text.
func publicKey(s string) (bundle.PublicKey, error) {
	if s == "" {
		return "", nil
	}
	k, err := bundle.ParsePublicKey(s)
	if err == nil {
		return k, nil
	}
	const most = 1 << 10
	if info, statErr := os.Stat(s); statErr != nil || info.Size() > most {
		return "", err
	}
	data, readErr := os.ReadFile(s)
	if readErr != nil {
		return "", readErr
	}
	return bundle.ParsePublicKey(string(data))
}
