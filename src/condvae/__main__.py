from condvae.cli import main

main()
